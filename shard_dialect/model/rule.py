"""Sharding rules.

A sharding rule tells how an op relates the dimensions of its operands and results. It names the
op's loops, its *factors*, and maps each tensor dimension to one or more factors, major to minor. A
matrix product has three factors:

    ([i, k], [k, j]) -> ([i, j]) reduction={k: sum}

Splitting a factor splits every dimension that has it. Splitting a reduction factor makes the
results partial. The RFC's loop iterator types with indexing maps are the special case of one factor
per dimension. A dimension without a factor (of size 1, say) is never split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal

from shard_dialect.errors import ShardError
from shard_dialect.model.factor_projection import (
    EQUAL,
    Dims,
    Extents,
    FactorSplit,
    axes_of,
    project,
    sub_axes_of,
    unproject,
)
from shard_dialect.model.grid import Axes, Axis, Grid, axes_text
from shard_dialect.model.sharding import Reduction, Shape, Sharding, ShardingError, Sizes
from shard_dialect.model.windows import Reading, Windows

Assignment = tuple[Axes, ...]
"""The axes that split each factor of a rule, major to minor."""
Role = Literal["", "elementwise", "pass", "forward", "broadcast", "other"]
"""The kind of op, which decides when propagation visits it: see `propagation.engine`."""


@dataclass(frozen=True, slots=True)
class Window:
    """Dimension `dim` of operand `operand` is read in `windows`, one for each index of `factor`.

    Splitting the factor splits the dimension, of which devices then get what they read of others:
    in a halo, or by an exchange that is a part of the op.
    """

    factor: int
    operand: int
    dim: int
    windows: Windows


@dataclass(frozen=True)
class ShardingRule:
    """`sizes[f]` is factor f's size; `operands[i][d]` are the factors of operand i's dimension d.

    `None` stands for an operand or result that is not a tensor. A factor may be split freely unless
    it is in one of

    * `reductions`, with the kind: splitting it makes the results partial;
    * `need_replication`: the op needs all of it (to sort, say), so materialization gathers the
      operands first;
    * `permuted`: some of a device's results belong to another device's shard (in a slice, say).

    A `need_replication` or `permuted` factor with `windows` may be split: they give the halo that a
    device needs.

    Propagation passes shardings along all factors that are not `blocked`. `inits` are the operands
    that the results start from, `linalg`'s outs. A split reduction would count them once per
    device, so materialization adds them after the reduction. `rolled` has the factors whose
    elements move along their dimension, and how far: those that leave it come back at the other
    end. `role` is derived from the other fields if it is not given.
    """

    sizes: tuple[int, ...]
    operands: tuple[Dims | None, ...]
    results: tuple[Dims | None, ...]
    reductions: tuple[tuple[int, Reduction], ...] = ()
    need_replication: frozenset[int] = frozenset()
    permuted: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    inits: tuple[int, ...] = ()
    role: Role = ""
    windows: tuple[Window, ...] = ()
    rolled: tuple[tuple[int, int], ...] = ()
    products: int | None = None
    """How many products are added up where the factors do not tell, as windows overlap."""

    def __post_init__(self) -> None:
        if not self.role:
            object.__setattr__(self, "role", self._role())

    def _role(self) -> Role:
        if self.is_elementwise:
            return "elementwise"
        tensors = [dims for dims in self.operands + self.results if dims]
        sized = {factor for factor, size in enumerate(self.sizes) if size != 1}
        in_all = all(sized <= {factor for dim in dims for factor in dim} for dims in tensors)
        return "pass" if in_all and not self.special and any(self.operands) else "other"

    @classmethod
    def einsum(
        cls,
        spec: str,
        operands: Sequence[Shape | None],
        results: Sequence[Shape | None],
        reductions: Mapping[str, Reduction] | None = None,
    ) -> ShardingRule:
        """A rule from einsum notation: one letter per factor, `1` for a dimension never split.

        Raises `ShardError` where the notation does not fit the number of tensors or their ranks.

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

    @cached_property
    def reduction_of(self) -> dict[int, Reduction]:
        """The reduction of each reduction factor."""
        return dict(self.reductions)

    @cached_property
    def unsplit(self) -> frozenset[int]:
        """The factors that must not be split: `need_replication` or `permuted`, without windows."""
        return (self.need_replication | self.permuted) - {window.factor for window in self.windows}

    @cached_property
    def special(self) -> frozenset[int]:
        """The factors that are reduced, needed whole, or permuted."""
        return self.need_replication | self.permuted | {factor for factor, _ in self.reductions}

    @cached_property
    def lost(self) -> frozenset[int]:
        """The factors of operands that a result lacks, and of which the rule says nothing.

        Split, each device would compute that result of its own shard alone.
        """

        def of(dims: Dims | None) -> set[int]:
            return {factor for dim in dims or () for factor in dim}

        everywhere = set(range(len(self.sizes))).intersection(*map(of, self.results))
        return frozenset(set().union(*map(of, self.operands)) - everywhere - self.special)

    @cached_property
    def windowed_operands(self) -> tuple[Dims | None, ...]:
        """`operands`, where a dimension that is read in windows has only the windows' factor."""
        operands = [list(dims) if dims is not None else None for dims in self.operands]
        for window in self.windows:
            dims = operands[window.operand]
            assert dims is not None, "windows go over tensors"
            dims[window.dim] = (window.factor,)
        return tuple(None if dims is None else tuple(dims) for dims in operands)

    @cached_property
    def may_be_uneven(self) -> frozenset[int]:
        """The factors that may be split unevenly.

        Such a factor is the first of each dimension that has it. In a dimension of several factors
        (a reshape's, say), shards of the first one begin at offsets; shards of the others are
        strided unless those before are split fully. It is also in every result, or reduced. Else it
        belongs to a dimension of size 1 that is dropped or repeated, and some devices would have
        none of it.

        >>> sorted(ShardingRule((2, 3, 5), (((0, 1), (2,)),), (((0,), (1,), (2,)),)).may_be_uneven)
        [0, 2]
        """
        tensors = [dims for dims in self.windowed_operands + self.results if dims]
        minor = {factor for dims in tensors for dim in dims for factor in dim[1:]}
        kept = set(self.reduction_of)
        results = [dims for dims in self.results if dims is not None]
        for factor in range(len(self.sizes)):
            if all(any(factor in dim for dim in dims) for dims in results):
                kept.add(factor)
        return frozenset(kept) - minor - self.unsplit - self.blocked

    @cached_property
    def is_elementwise(self) -> bool:
        """Whether all tensors but scalars have the same factors in the same order, one a dimension.

        Each element of a result then depends on the elements at the same index, and on scalars.
        """
        tensors = [dims for dims in self.operands + self.results if dims]
        alike = all(dims == tensors[0] for dims in tensors)
        each = alike and all(len(dim) == 1 for dims in tensors for dim in dims)
        return each and not (self.special or self.blocked)

    def flops(self, assignment: Assignment, grid: Grid) -> float:
        """The floating-point operations of one device under `assignment`; 0 if not a product.

        >>> rule = ShardingRule.einsum("ik,kj->ij", [(4, 8), (8, 2)], [(4, 2)], {"k": "sum"})
        >>> rule.flops(((0,), (), ()), Grid("g", (2,)))
        64.0
        """
        if not self.is_product:
            return 0
        devices = prod(grid.axes_size(axes) for axes in assignment)
        return 2 * (self.products or prod(self.sizes)) / devices

    @cached_property
    def is_product(self) -> bool:
        """Whether the op reduces over several tensor operands, as a matrix product does.

        These have all the factors of the results: a gather reads its indices, and reduces over its
        other operand alone; a scatter does not compute with its first operand.

        >>> ShardingRule.einsum("vd,bs->bd", [(9, 4), (8, 1)], [(8, 4)], {"v": "sum"}).is_product
        False
        """
        reduced = {factor for factor, _ in self.reductions}
        factors = [{factor for dim in dims or () for factor in dim} for dims in self.operands]
        over = [each for each in factors if not reduced.isdisjoint(each)]
        made = {factor for dims in self.results for dim in dims or () for factor in dim}
        return len(over) > 1 and made <= set().union(*over)

    @cached_property
    def windowed_factors(self) -> frozenset[int]:
        """The factors that windows of an operand go along."""
        return frozenset(window.factor for window in self.windows)

    def operand_sharding(
        self, index: int, assignment: Assignment, grid: Grid, extents: Extents = EQUAL
    ) -> Sharding | None:
        """The sharding that operand `index` needs under `assignment`, halos included.

        `None` for an operand that is not a tensor. Raises `ShardingError` where shards would be
        strided, or devices would read windows in different ways.
        """
        dims = self.windowed_operands[index]
        if dims is None:
            return None
        split, offsets = self._split(dims, assignment, grid, extents)
        sharding = Sharding(grid.name, split, offsets=offsets)
        if extents.halos:
            sharding = extents.with_halos(dims, sharding)
        for window in self.windows:
            if window.operand == index and assignment[window.factor]:
                devices = grid.axes_size(assignment[window.factor])
                halo = self._reading(window, devices).halo
                sharding = sharding.with_halo(
                    window.dim, halo, window.windows.fill or sharding.fill
                )
        return sharding

    def summed_axes(self, index: int, sharding: Sharding) -> frozenset[Axis]:
        """The axes by which operand `index`, sharded so, makes the results partial.

        >>> product = ShardingRule((4, 8), (((0,), (1,)), ((1,),)), (((0,),),), ((1, "sum"),))
        >>> sorted(product.summed_axes(0, Sharding("g", ((0,), (1,)))))
        [1]
        """
        pairs = zip(self.operands[index] or (), sharding.split_axes, strict=True)
        reduced = self.reduction_of.keys()
        return frozenset(axis for dim, axes in pairs if reduced & set(dim) for axis in axes)

    def exchanged(
        self, operand: int, held: Sharding, shape: Shape, assignment: Assignment, grid: Grid
    ) -> list[int]:
        """The elements of an operand, sharded as `held`, that a device sends as a part of the op.

        One number for each round of messages; none where it comes with halos, or is not split.

        >>> over = Windows(64, 32, stride=1, extent=1, low=0)
        >>> split = (((0,),),)
        >>> rule = ShardingRule((64,), split, split, windows=(Window(0, 0, 0, over),))
        >>> rule.exchanged(0, Sharding("g", ((0,),)), (64,), ((0,),), Grid("g", (8,)))
        [4, 4]
        """
        dims = self.operands[operand]
        if dims is None or not self.exchanging:
            return []
        found, local = [], list(held.local_shape(shape, grid))
        for window in self.windows_in_order(lambda each: grid.axes_size(assignment[each])):
            if window.operand == operand and assignment[window.factor]:
                reading = self._reading(window, grid.axes_size(assignment[window.factor]))
                others = prod(local[: window.dim]) * prod(local[window.dim + 1 :])
                found += [each.size * others for each in reading.rounds if not each.stays]
                local[window.dim] = reading.count
        for factor, by in self.rolled:
            devices, size = grid.axes_size(assignment[factor]), local[dims.index((factor,))]
            hops, last = divmod(by, size)
            # The last elements of a shard go one device further than the others.
            for count, distance in ((last, hops + 1), (size - last, hops)):
                if count and distance % devices:
                    found.append(prod(local) // size * count)
        return found

    def windows_in_order(self, devices: Callable[[int], int]) -> list[Window]:
        """The windows in the order in which they are read, with the devices that split a factor.

        Of another dimension devices send no more than they still hold, so that those come first of
        which nothing is sent, and then those of which the least is read:

            rows [33:35] and columns [16:34] of 48x40 on 2x2 devices of 24x20      rows first
        """

        def part_read(window: Window) -> tuple[bool, float]:
            n, size = devices(window.factor), window.windows.size
            reading = window.windows.reading(n) if n > 1 else None
            if reading is None or not size:
                return False, 1
            return bool(reading.rounds), reading.count * n / size

        return sorted(self.windows, key=part_read)

    @cached_property
    def exchanging(self) -> frozenset[int]:
        """The factors whose split lets devices send elements as a part of the op."""
        return frozenset(
            [window.factor for window in self.windows] + [factor for factor, _ in self.rolled]
        )

    def _reading(self, window: Window, devices: int) -> Reading:
        reading = window.windows.reading(devices)
        is_summed = window.factor in self.reduction_of
        if reading is None or (is_summed and reading.skips):
            raise ShardingError(
                f"{devices} devices would read dimension {window.dim} of operand {window.operand} "
                "each through windows of another layout"
            )
        return reading

    def result_sharding(
        self, index: int, assignment: Assignment, grid: Grid, extents: Extents = EQUAL
    ) -> Sharding | None:
        """The sharding of result `index` under `assignment`, partial axes included.

        `None` for a result that is not a tensor. Raises `ShardingError` where shards would be
        strided.
        """
        dims = self.results[index]
        if dims is None:
            return None
        split = [factor for factor, _ in self.reductions if assignment[factor]]
        kinds = {self.reduction_of[factor] for factor in split}
        assert len(kinds) <= 1, f"{self} cannot reduce by {sorted(kinds)} at once"
        partial = tuple(axis for factor in split for axis in assignment[factor])
        reduction: Reduction = next(iter(kinds), "sum")
        split_axes, offsets = self._split(dims, assignment, grid, extents)
        sharding = Sharding(grid.name, split_axes, partial, reduction, offsets=offsets)
        return extents.with_halos(dims, sharding) if extents.halos else sharding

    def factors_of(self, dims: Dims, sharding: Sharding, grid: Grid) -> dict[int, Axes]:
        """The axes that split each factor, for a tensor with factors `dims` and this sharding.

        Raises `ShardingError` where some of its axes split no factor.
        """
        if all(len(dim) == 1 for dim in dims):
            return {dim[0]: axes for dim, axes in zip(dims, sharding.split_axes, strict=True)}
        dims = tuple(
            dim[:1] if len(dim) > 1 and self._is_first_alone(index, dim, sharding, grid) else dim
            for index, dim in enumerate(dims)
        )
        split = [sub_axes_of(axes, grid) for axes in sharding.split_axes]
        splits = project(dims, self.sizes, split, [False] * len(dims))
        for dim, axes in zip(dims, sharding.split_axes, strict=True):
            if any(splits[factor].overflow for factor in dim) or (axes and not dim):
                raise ShardingError(f"axes {axes_text(axes)} of {sharding} split no factor")
        return {factor: axes_of(each.axes, grid) for factor, each in splits.items()}

    def _is_first_alone(
        self, index: int, dim: tuple[int, ...], sharding: Sharding, grid: Grid
    ) -> bool:
        """Whether the shards of dimension `index`, of factors `dim`, are uneven ones of the first.

        >>> rule = ShardingRule((7, 2), (((0,), (1,)),), (((0, 1),),))
        >>> at = Sharding("g", ((0,),), offsets=((0, 8, 14),))
        >>> rule.factors_of(((0, 1),), at, Grid("g", (2,)))
        {0: (0,)}
        """
        size = prod(self.sizes[factor] for factor in dim)
        axes = sharding.split_axes[index]
        has_offsets = bool(sharding.offsets and sharding.offsets[index])
        if not axes or not (has_offsets or size % grid.axes_size(axes)):
            return False
        inner = size // self.sizes[dim[0]]
        return not any(at % inner for at in sharding.bounds(index, size, grid))

    def _split(
        self, dims: Dims, assignment: Assignment, grid: Grid, extents: Extents
    ) -> tuple[tuple[Axes, ...], tuple[Sizes, ...]]:
        """The axes that split each dimension, and where its shards begin, if at offsets.

        Raises `ShardingError` where shards are strided.
        """
        if not extents.offsets and all(len(dim) <= 1 for dim in dims):
            return tuple(assignment[dim[0]] if dim else () for dim in dims), ()
        used = {f: FactorSplit(sub_axes_of(assignment[f], grid)) for dim in dims for f in dim}
        split = tuple(axes_of(sub_axes, grid) for sub_axes in unproject(dims, self.sizes, used))
        for dim, axes in zip(dims, split, strict=True):
            expected = grid.axes_size([axis for factor in dim for axis in assignment[factor]])
            if grid.axes_size(axes) != expected:
                raise ShardingError(f"shards of dimension {dim} of rule {self} would be strided")
        given = dict(extents.offsets)
        offsets = tuple(
            self.offsets_of(dim, assignment[dim[0]], given.get(dim[0], ()), grid) if dim else ()
            for dim in dims
        )
        for dim, at in zip(dims, offsets, strict=True):
            if at and any(assignment[factor] for factor in dim[1:]):
                raise ShardingError(f"shards of dimension {dim} of rule {self} would be strided")
        return split, offsets if any(offsets) else ()

    def offsets_of(self, dim: tuple[int, ...], axes: Axes, given: Sizes, grid: Grid) -> Sizes:
        """Where shards of a dimension begin whose first factor is split along `axes`.

        `dim` has its factors, `given` the offsets of the first, if it has any; () stands for where
        shards begin without offsets.

        >>> rule = ShardingRule((7, 2), (((0,), (1,)),), (((0, 1),),))
        >>> rule.offsets_of((0, 1), (0,), (), Grid("g", (2,)))
        (0, 8, 14)
        """
        size = self.sizes[dim[0]]
        if not axes or (not given and size % grid.axes_size(axes) == 0):
            return ()
        inner = prod(self.sizes[factor] for factor in dim[1:])
        alone = Sharding(grid.name, (axes,))
        begins = given or alone.bounds(0, size, grid)
        offsets = tuple(None if at is None else at * inner for at in begins)
        return () if offsets == alone.bounds(0, size * inner, grid) else offsets

    def __str__(self) -> str:
        def name(factor: int) -> str:
            return chr(ord("a") + factor) if factor < 26 else f"f{factor}"

        def tensor(dims: Dims | None) -> str:
            if dims is None:
                return "-"
            written = ["".join(map(name, dim)) or "1" for dim in dims]
            return f"[{', '.join(written)}]"

        text = (
            f"({', '.join(map(tensor, self.operands))}) -> ({', '.join(map(tensor, self.results))})"
        )
        if self.reductions:
            kinds = ", ".join(f"{name(factor)}: {kind}" for factor, kind in self.reductions)
            text += f" reduction={{{kinds}}}"
        sets = {
            "whole": self.need_replication,
            "permuted": self.permuted,
            "blocked": self.blocked,
        }
        for kind, factors in sets.items():
            if factors:
                text += f" {kind}={{{', '.join(map(name, sorted(factors)))}}}"
        return text
