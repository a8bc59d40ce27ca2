"""Shardings as people write them: for each dimension, the names or numbers of the grid's axes."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.model.axis import Axis
from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Sharding, ShardingError

SplitAxes = Sequence[Sequence[str | Axis]]
"""For each dimension, the names or numbers of the axes that split it."""


def sharding_on(grid: Grid, sharding: Sharding | SplitAxes, rank: int) -> Sharding:
    """The sharding of a tensor with `rank` dimensions; those that are left out are not split.

    Raises `ShardingError` if the tensor or the grid cannot have it.

    >>> grid = Grid("g", (2, 4), axis_names=("data", "model"))
    >>> str(sharding_on(grid, [["data"], [1]], 3))
    '[[0], [1], []]'
    """
    if isinstance(sharding, Sharding):
        sharding.check(grid, rank)
        if sharding.rank != rank:
            raise ShardingError(f"sharding {sharding} is not of a tensor of rank {rank}")
        return sharding
    split = tuple(tuple(_axis(axis, grid) for axis in axes) for axes in sharding)
    found = Sharding(grid.name, (*split, *((),) * (rank - len(split))))
    found.check(grid, rank)
    return found


def _axis(axis: str | Axis, grid: Grid) -> Axis:
    if not isinstance(axis, str):
        return axis
    names = [grid.axis_name(each) for each in range(grid.rank)]
    if axis not in names:
        known = ", ".join(f'"{each}"' for each in names)
        raise ShardingError(f'grid @{grid.name} has no axis "{axis}"; its axes: {known}')
    return names.index(axis)
