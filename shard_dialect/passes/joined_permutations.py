"""Join permutations of the local form with the collective that what they move comes to.

A permutation of all devices' shards may be done later, after the ops that every device computes
alike of its shard; and what then follows can do its work:

    %1 = mesh.collective_permute %0 by [1, 0]       a reversal of a split dimension
    %2 = stablehlo.reverse %1
    %3 = mesh.collective_permute %2 by [1, 0]       a reshard
      becomes
    %3 = stablehlo.reverse %0

A gather, or an all-to-all, puts shards beside each other in an order, which is another one if a
permutation came before; a sum over the devices has none:

    %1 = mesh.collective_permute %0 by [1, 0]
    %2 = shard.all_gather %1 : tensor<4xf32> -> tensor<8xf32>
      becomes
    %1 = shard.all_gather %0
    %2 = the elements 4 to 7 of %1, then 0 to 3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from shard_dialect.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    LocalStep,
    Permute,
    ReduceScatter,
)
from shard_dialect.collectives.step import NOBODY, flat_index
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import captured
from shard_dialect.ir.shard.local_collectives import (
    is_between_devices,
    is_local,
    read_local,
    write_local,
)
from shard_dialect.ir.walk import walk
from shard_dialect.model import Axes
from shard_dialect.ops.op_table import UNREPEATABLE, named

PERMUTE = "mesh.collective_permute"

_MOST_BLOCKS = 64
"""A gather of more shards is not put in another order, for which each is an op."""


def join_permutations(function: ir.Operation, shardings: Shardings) -> None:
    """Join the permutations of a function in the local form with what comes after them."""
    waiting = [op for op in walk(function) if op.name == PERMUTE and is_local(op)]
    while waiting:
        first = waiting.pop(0)
        grid, step = _read(first)
        assert isinstance(step, Permute), "a permutation"
        found = _Path(grid, step).end(first)
        if found is None:
            continue
        last, then = found
        axes = (*then.axes, *(each for each in step.axes if each not in then.axes))
        sizes = shardings.grid(grid).sizes_along(axes)
        with ir.InsertionPoint.after(last), ir.Location.fused([first.location, last.location]):
            if isinstance(then, Permute):
                joined = Permute(axes, _sent((step, then), axes, sizes))
                value = write_local(joined, grid, last.operands[0], last.results[0].type)
                # One that came of an earlier join has been looked at: it waits no more, then.
                waiting = [value.owner.operation, *(each for each in waiting if each != last)]
                replace_op(last, value)
            elif not _reorder(last.results[0], then.joined_dim, _sent((step,), axes, sizes)):
                continue
        # The ops in between compute on the shards as they are before the permutation.
        replace_op(first, first.operands[0])


def _read(op: ir.Operation) -> tuple[str, LocalStep]:
    found = read_local(op.name, op.attributes)
    assert found is not None, "a collective of the local form"
    return found


@dataclass
class _Path:
    """What follows a permutation, along whose axes all devices compute alike."""

    grid: str
    step: Permute
    known: dict[ir.Value, bool] = field(default_factory=dict)

    def end(self, first: ir.Operation) -> tuple[ir.Operation, LocalStep] | None:
        """The collective that can be joined, behind ops that may be done before the permutation."""
        value = first.results[0]
        while True:
            uses = list(value.uses)
            op = uses[0].owner.operation if len(uses) == 1 else None
            if op is None or op.block != first.block or len(op.results) != 1:
                return None
            grid, step = _read(op) if is_local(op) else (self.grid, None)
            is_next = value == first.results[0]
            if step is not None and grid == self.grid and self._may_join(step, is_next=is_next):
                return op, step
            if not self._sends_all or not self._is_alike(op, value):
                return None
            value = op.results[0]

    @property
    def _sends_all(self) -> bool:
        """Whether each device gets something: zeros may become something else in the next ops."""
        return NOBODY not in self.step.permutation

    def _may_join(self, step: LocalStep, *, is_next: bool) -> bool:
        """Whether the collective can do the permutation's work."""
        if isinstance(step, Permute):
            return self._sends_all or is_next
        # If it were among others, too, shards of another group would come in: not those it joins.
        is_ordered = isinstance(step, _ORDERED) and {*self.step.axes} <= {*step.axes}
        return self._sends_all and is_ordered

    def _is_alike(self, op: ir.Operation, *moved: ir.Value) -> bool:
        """Whether devices along the axes make the same of the same operands `moved`."""
        if is_between_devices(op):
            if not is_local(op):
                return False
            grid, step = _read(op)
            if grid != self.grid or {*step.axes} & {*self.step.axes}:
                return False
        elif op.name in UNREPEATABLE or named(op.name) is None or captured(op):
            return False
        return all(value in moved or self._is_same(value) for value in op.operands)

    def _is_same(self, value: ir.Value) -> bool:
        """Whether all devices along the axes have the same value."""
        if value not in self.known:
            owner = value.owner
            is_made = not isinstance(owner, ir.Block)
            self.known[value] = is_made and self._is_alike(owner.operation)
        return self.known[value]


_ORDERED = (AllGather, AllReduce, AllToAll, ReduceScatter)
"""Collectives whose result has the shards of a group in order, or has their sum."""


def _sent(steps: Sequence[Permute], axes: Axes, sizes: Sequence[int]) -> tuple[int, ...]:
    """Where along `axes` each device sends its shard in all steps."""
    sent: list[int] = []
    for place in product(*map(range, sizes)):
        at: tuple[int, ...] | None = place
        for step in steps:
            at = None if at is None else _sent_to(at, axes, step, sizes)
        sent.append(NOBODY if at is None else flat_index(at, sizes))
    return tuple(sent)


def _sent_to(
    at: tuple[int, ...], axes: Axes, step: Permute, sizes: Sequence[int]
) -> tuple[int, ...] | None:
    """Where along `axes` the device at `at` sends its shard; `None`: nowhere."""
    places = [axes.index(each) for each in step.axes]
    own = [sizes[each] for each in places]
    to = step.permutation[flat_index([at[each] for each in places], own)]
    if to == NOBODY:
        return None
    moved = list(at)
    for place, size in zip(reversed(places), reversed(own), strict=True):
        to, moved[place] = divmod(to, size)
    return tuple(moved)


def _reorder(value: ir.Value, dim: int | None, sent: Sequence[int]) -> bool:
    """Give users of `value`, along `dim`, block `i` in the place `sent[i]`; `False`: too many."""
    if dim is None:
        return True
    if len(sent) > _MOST_BLOCKS or not value.type.has_static_shape:
        return False
    uses, size = list(value.uses), value.type.shape[dim] // len(sent)
    blocks = [
        build.extract_slice(value, sent.index(to) * size, size, dim) for to in range(len(sent))
    ]
    build.redirect(uses, build.concatenated(blocks, dim))
    return True
