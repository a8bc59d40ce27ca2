"""How an op relates the dimensions of its operands and results.

A rule names the op's loops, its *factors*, and says for each tensor dimension which factors make
it up, major to minor. A matrix product has three:

    ([i, k], [k, j]) -> ([i, j]) reduction={k: sum}

Splitting a factor splits every dimension that it is in; splitting a reduction factor makes the
results partial. The RFC's loop iterator types with indexing maps are the case of one factor a
dimension. A dimension without a factor (of size 1, say) is never split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from shard_dialect.errors import ShardError
from shard_dialect.model.axis import Axes
from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Reduction, Shape, Sharding

Dims = tuple[tuple[int, ...], ...]
Assignment = tuple[Axes, ...]
"""The axes that split each factor of a rule, major to minor."""


@dataclass(frozen=True)
class ShardingRule:
    """`sizes[f]` is factor f's size; `operands[i][d]` are the factors of operand i's dimension d.

    `None` stands for an operand or result that is no tensor. `reductions` gives the kind for each
    reduction factor; `whole` are the factors that no axis may split (their index is read, say).
    `inits` are the operands that the results start from, `linalg`'s outs: under a split reduction
    they would be counted once a device, so materialization adds them after the reduction.
    """

    sizes: tuple[int, ...]
    operands: tuple[Dims | None, ...]
    results: tuple[Dims | None, ...]
    reductions: tuple[tuple[int, Reduction], ...] = ()
    whole: frozenset[int] = frozenset()
    inits: tuple[int, ...] = ()

    @classmethod
    def einsum(
        cls,
        spec: str,
        operands: Sequence[Shape | None],
        results: Sequence[Shape | None],
        reductions: Mapping[str, Reduction] | None = None,
    ) -> ShardingRule:
        """A rule from einsum notation, one letter a factor, `1` for a dimension never split.

        >>> str(ShardingRule.einsum("ik,kj->ij", [(4, 8), (8, 2)], [(4, 2)], {"k": "sum"}))
        '([a, b], [b, c]) -> ([a, c]) reduction={b: sum}'
        """
        sides = [side.split(",") if side else [] for side in spec.split("->")]
        letters: dict[str, int] = {}
        sizes: list[int] = []

        def dims(text: str, shape: Shape | None) -> Dims | None:
            if shape is None:
                return None
            if len(text) != len(shape):
                raise ShardError(f"rule {spec} has {text!r} for a tensor of shape {list(shape)}")
            for letter, size in zip(text, shape, strict=True):
                if letter != "1" and letter not in letters:
                    letters[letter] = len(sizes)
                    sizes.append(size)
            return tuple(() if letter == "1" else (letters[letter],) for letter in text)

        if [len(side) for side in sides] != [len(operands), len(results)]:
            raise ShardError(
                f"rule {spec} is for another number of tensors than {len(operands)} operands and "
                f"{len(results)} results"
            )
        ins = tuple(dims(text, shape) for text, shape in zip(sides[0], operands, strict=True))
        outs = tuple(dims(text, shape) for text, shape in zip(sides[1], results, strict=True))
        kinds = tuple((letters[letter], kind) for letter, kind in (reductions or {}).items())
        return cls(tuple(sizes), ins, outs, kinds)

    def contiguous(self) -> ShardingRule:
        """The same rule with the major factor alone of each dimension that has several.

        Split by a minor one, a piece would be strided, which no sharding can say yet.
        """
        dims = [dim for tensor in (*self.operands, *self.results) for dim in tensor or ()]
        minor = {factor for dim in dims for factor in dim[1:]}

        def kept(tensor: Dims | None) -> Dims | None:
            if tensor is None:
                return None
            return tuple(tuple(f for f in dim if f not in minor) for dim in tensor)

        return replace(
            self, operands=tuple(map(kept, self.operands)), results=tuple(map(kept, self.results))
        )

    @cached_property
    def reduction_of(self) -> dict[int, Reduction]:
        return dict(self.reductions)

    @cached_property
    def is_elementwise(self) -> bool:
        """Every tensor has the same factors in the same order: an index in, the same index out."""
        tensors = [dims for dims in self.operands + self.results if dims is not None]
        alike = all(dims == tensors[0] for dims in tensors)
        each = alike and all(len(factors) == 1 for factors in tensors[0])
        return each and not (self.reductions or self.whole)

    @cached_property
    def is_pass_through(self) -> bool:
        """Every factor is in every operand and result: nothing is reduced or broadcast."""
        tensors = [dims for dims in self.operands + self.results if dims is not None]
        factors = [{factor for dim in dims for factor in dim} for dims in tensors]
        return all(found == set(range(len(self.sizes))) for found in factors)

    def operand_sharding(self, index: int, assignment: Assignment, grid: Grid) -> Sharding | None:
        """What operand `index` must be when `assignment` splits the factors."""
        dims = self.operands[index]
        return None if dims is None else Sharding(grid.name, _split(dims, assignment))

    def result_sharding(self, index: int, assignment: Assignment, grid: Grid) -> Sharding | None:
        """What result `index` is when `assignment` splits the factors, partial sums included."""
        dims = self.results[index]
        if dims is None:
            return None
        split = [factor for factor, _ in self.reductions if assignment[factor]]
        kinds = {self.reduction_of[factor] for factor in split}
        assert len(kinds) <= 1, f"{self} cannot reduce by {sorted(kinds)} at once"
        partial = tuple(axis for factor in split for axis in assignment[factor])
        reduction: Reduction = next(iter(kinds), "sum")
        return Sharding(grid.name, _split(dims, assignment), partial, reduction)

    def __str__(self) -> str:
        def name(factor: int) -> str:
            return chr(ord("a") + factor) if factor < 26 else f"f{factor}"

        def tensor(dims: Dims | None) -> str:
            if dims is None:
                return "-"
            parts = ["".join(map(name, dim)) or "1" for dim in dims]
            return f"[{', '.join(parts)}]"

        text = (
            f"({', '.join(map(tensor, self.operands))}) -> ({', '.join(map(tensor, self.results))})"
        )
        if self.reductions:
            kinds = ", ".join(f"{name(factor)}: {kind}" for factor, kind in self.reductions)
            text += f" reduction={{{kinds}}}"
        if self.whole:
            text += f" whole={{{', '.join(map(name, sorted(self.whole)))}}}"
        return text


def _split(dims: Dims, assignment: Assignment) -> tuple[Axes, ...]:
    return tuple(tuple(axis for factor in dim for axis in assignment[factor]) for dim in dims)
