"""The operands of a plan's steps, and the bytes that the steps move."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.model.collectives import AllToAll, ReduceScatter, Step
from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Shape, Sharding


def bytes_moved(
    steps: Sequence[Step], source: Sharding, shape: Shape, itemsize: int, grid: Grid
) -> int:
    """The bytes per device that `steps` move, for a tensor of global `shape` sharded as `source`.

    For uneven shardings these are the bytes of the largest shard, padded to what a step divides.
    """
    total, now = 0, source
    for step in steps:
        operand = operand_shape(step, now, shape, grid)
        total += step.bytes_moved(grid.axes_size(step.axes), operand, itemsize)
        now = step.after(now)
    return total


def operand_shape(step: Step, now: Sharding, shape: Shape, grid: Grid) -> Shape:
    """The local shape of the operand of `step`: the largest shard, padded to what it divides.

    >>> operand_shape(ReduceScatter(0, (0,)), Sharding("g", ((),), (0,)), (7,), Grid("g", (4,)))
    (8,)
    """
    operand = list(now.local_shape(shape, grid))
    if isinstance(step, ReduceScatter | AllToAll):
        dim = step.dim if isinstance(step, ReduceScatter) else step.target_dim
        count = grid.axes_size(step.axes)
        operand[dim] = step.after(now).local_shape(shape, grid)[dim] * count
    return tuple(operand)
