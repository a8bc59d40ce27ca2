"""Sub-clusters of a grid, and stages: sub-clusters of equal size without common devices.

    @g(2x4), stages along axis 0      0 1 2 3   @first
                                      4 5 6 7   @second

A stage is the devices with one index along one axis of the grid. A tensor of a stage is sharded
over the grid's other axes, which keep their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import ShardingError


@dataclass(frozen=True, slots=True)
class SubCluster:
    """The devices of the grid called `of` from `offsets` on, as many as `sizes` along each axis.

    >>> second = SubCluster("second", "g", (1, 0), (1, 4))
    >>> [rank for rank in range(8) if second.holds(rank, Grid("g", (2, 4)))]
    [4, 5, 6, 7]
    """

    name: str
    of: str
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    def holds(self, rank: int, grid: Grid) -> bool:
        """Whether device `rank` of the grid is in the sub-cluster."""
        at = zip(grid.coordinates(rank), self.offsets, self.sizes, strict=True)
        return all(begin <= position < begin + size for position, begin, size in at)

    def overlaps(self, other: SubCluster) -> bool:
        """Whether two sub-clusters of one grid have a device in common.

        >>> SubCluster("a", "g", (0, 0), (1, 4)).overlaps(SubCluster("b", "g", (0, 3), (2, 1)))
        True
        """
        ranges = zip(self.offsets, self.sizes, strict=True)
        other_ranges = zip(other.offsets, other.sizes, strict=True)
        return all(
            a < b + count and b < a + size
            for (a, size), (b, count) in zip(ranges, other_ranges, strict=True)
        )

    def __str__(self) -> str:
        return f"@{self.name}({'x'.join(map(str, self.sizes))})"


def stage_axis(stages: Sequence[SubCluster], grid: Grid) -> int:
    """The grid axis along which the sub-clusters are stages.

    Raises `ShardingError` if they overlap, differ in size, or are not stages along one axis.

    >>> first, second = (SubCluster(f"s{at}", "g", (at, 0), (1, 4)) for at in (0, 1))
    >>> stage_axis([first, second], Grid("g", (2, 4)))
    0
    """
    for at, stage in enumerate(stages):
        for other in stages[:at]:
            if stage.overlaps(other):
                raise ShardingError(
                    f"stages {other} and {stage} have devices in common: expected none"
                )
            if stage.sizes != other.sizes:
                raise ShardingError(
                    f"stages {other} and {stage} are of different sizes: expected equal ones"
                )
    for stage in stages:
        smaller = [axis for axis in range(grid.rank) if stage.sizes[axis] != grid.shape[axis]]
        if len(smaller) != 1 or stage.sizes[smaller[0]] != 1:
            raise ShardingError(
                f"stage {stage} of {grid} is not the devices with one index along one axis"
            )
    return next(axis for axis in range(grid.rank) if stages[0].sizes[axis] != grid.shape[axis])
