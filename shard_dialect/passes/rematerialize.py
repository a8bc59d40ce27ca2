"""Compute cheap values once more where they are read late, instead of storing them until then.

    %t = stablehlo.tanh %h                        %t = stablehlo.tanh %h
    ...                        the peak           ...
    %d = stablehlo.multiply %g, %t                %b = stablehlo.optimization_barrier %h
                                                  %u = stablehlo.tanh %b
                                                  %d = stablehlo.multiply %g, %u

Training steps store what the backward pass reads of the forward pass. At the peak of the memory,
before anything is sharded, this pass looks for values that are read after it and that a few ops
compute from others that are live anyway: ops on each element, broadcasts, and those that move
elements. Products, reductions and the like are kept. The barrier keeps `cse` from undoing it.

The pass goes on at the next peak, until the peak no longer gets lower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import copy_along, create
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.numbered_function import Function, Op, read_by, read_function
from shard_dialect.ir.verify import declares_no_grid
from shard_dialect.ops import is_cheap
from shard_dialect.passes.framework.base import Pass

_LONGEST = 12
"""The most ops that are computed again for one value."""
_ROUNDS = 16


@dataclass(frozen=True)
class Rematerialize(Pass):
    """Compute cheap values again after the peak of the memory, instead of storing them."""

    name = "rematerialize"

    def rewrite(self, module: ir.Operation) -> None:
        """Change the functions in the annotated form that have one block, on some grid."""
        if declares_no_grid(module):
            return
        for handle in functions_of(module, "annotated"):
            if len(handle.regions[0].blocks) == 1:
                for _ in range(_ROUNDS):
                    if not _Peak(read_function(handle)).lower():
                        break


@dataclass
class _Peak:
    """The peak of one function: the lifetimes of values, and which can be computed again."""

    function: Function
    positions: dict[int, int] = field(init=False)
    """The position of the op that makes each value of the function's block; arguments have -1."""
    uses: dict[int, list[int]] = field(init=False)
    """The positions of the ops that read each value, or hold one that does."""
    pinned: set[int] = field(default_factory=set)
    """Values that others are computed from again."""

    def __post_init__(self) -> None:
        self.ops = self.function.blocks[0].ops
        made = [(value, n) for n, op in enumerate(self.ops) for value in op.results]
        self.positions = dict.fromkeys(self.function.arguments, -1) | dict(made)
        self.uses = {value: [] for value in self.positions}
        for position, op in enumerate(self.ops):
            for value in dict.fromkeys(read_by(op)):
                if value in self.uses:
                    self.uses[value].append(position)
        self.peak = self._peak()

    def _bytes(self, value: int) -> int:
        kind = self.function.values[value].kind
        return 0 if kind.shape is None else prod(kind.shape) * kind.itemsize

    def _peak(self) -> int:
        changes = [0] * (len(self.ops) + 2)
        for value, made in self.positions.items():
            if made >= 0:
                changes[made] += self._bytes(value)
                changes[max([made, *self.uses[value]]) + 1] -= self._bytes(value)
        totals = list(accumulate(changes))
        return max(range(len(self.ops)), key=totals.__getitem__)

    def lower(self) -> bool:
        """Compute again what can be; whether anything is."""
        late = [
            value
            for value, made in self.positions.items()
            if 0 <= made < self.peak and self._is_read_late_only(value) and self._bytes(value)
        ]
        replaced = False
        for value in sorted(late, key=lambda each: (-self._bytes(each), each)):
            begin = next(each for each in self.uses[value] if each > self.peak)
            chain = self._chain(value, begin)
            # A chain reads values that must stay: one of them must not be computed again itself.
            if chain is not None and value not in self.pinned:
                self._replace(value, begin, chain)
                replaced = True
        return replaced

    def _is_read_late_only(self, value: int) -> bool:
        """Whether the value is read after the peak, and not by the op at the peak."""
        uses = self.uses[value]
        return self.peak not in uses and any(each > self.peak for each in uses)

    def _chain(self, value: int, begin: int) -> list[int] | None:
        """The ops, by position, that compute a value from others that are live at `begin`.

        `None` if it takes many ops, or one that is not cheap.
        """
        chain: set[int] = set()
        todo = [value]
        while todo:
            position = self.positions[todo.pop()]
            if position < 0 or not self._is_cheap(self.ops[position]) or len(chain) == _LONGEST:
                return None
            chain.add(position)
            todo += [
                each
                for each in dict.fromkeys(self.ops[position].operands)
                if not self._is_live(each, begin) and self.positions[each] not in chain
            ]
        for position in chain:
            for each in self.ops[position].operands:
                if self.positions.get(each) not in chain:
                    self.pinned.add(each)
        return sorted(chain)

    def _is_live(self, value: int, position: int) -> bool:
        """Whether a value is stored until `position` in any case."""
        is_argument = self.positions.get(value, -1) < 0
        return is_argument or value in self.pinned or self._outlives(value, position)

    def _outlives(self, value: int, position: int) -> bool:
        """Whether an op reads the value at `position` or later, and it cannot be computed again."""
        op = self.ops[self.positions[value]]
        return any(each >= position for each in self.uses[value]) and not self._is_cheap(op)

    def _is_cheap(self, op: Op) -> bool:
        if op.blocks or op.captures or op.name in annotation_ops.OPS:
            return False
        return is_cheap(op.handle)

    def _replace(self, value: int, begin: int, chain: list[int]) -> None:
        """Compute a value again in front of the op at `begin`, for all that read it from there."""
        readers = [self.ops[each].handle for each in self.uses[value] if each >= begin]
        again: dict[ir.Value, ir.Value] = {}
        old = self.function.values[value].handle
        with ir.InsertionPoint(self.ops[begin].handle):
            for position in chain:
                self._compute_again(self.ops[position].handle, again)
        for reader in readers:
            for op in _with_nested(reader):
                for number, operand in enumerate(op.operands):
                    if operand == old:
                        op.operands[number] = again[old]

    def _compute_again(self, op: ir.Operation, again: dict[ir.Value, ir.Value]) -> None:
        for operand in op.operands:
            if operand not in again:
                with op.location:
                    barrier = create("stablehlo.optimization_barrier", [operand.type], [operand])
                again[operand] = barrier.results[0]
        copy_along(op, again)


def _with_nested(op: ir.Operation) -> Iterator[ir.Operation]:
    yield op
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _with_nested(inner.operation)
