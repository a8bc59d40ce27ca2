"""A part of a grid, and the stages of a pipeline: parts that have all of the grid between them.

    @g(2x4), stages along axis 0      0 1 2 3   @first
                                      4 5 6 7   @second

Stages are the devices with one index along one axis of the grid, so that a tensor lies on a stage
along the grid's other axes, by their own numbers.
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
        """Whether device `rank` of the grid is in the part."""
        at = zip(grid.coordinates(rank), self.offsets, self.sizes, strict=True)
        return all(begin <= place < begin + size for place, begin, size in at)

    def overlaps(self, other: SubCluster) -> bool:
        """Whether a device is in both parts, of one grid.

        >>> SubCluster("a", "g", (0, 0), (1, 4)).overlaps(SubCluster("b", "g", (0, 3), (2, 1)))
        True
        """
        ours = zip(self.offsets, self.sizes, strict=True)
        theirs = zip(other.offsets, other.sizes, strict=True)
        return all(
            a < b + count and b < a + size
            for (a, size), (b, count) in zip(ours, theirs, strict=True)
        )

    def __str__(self) -> str:
        return f"@{self.name}({'x'.join(map(str, self.sizes))})"


def stage_axis(parts: Sequence[SubCluster], grid: Grid) -> int:
    """The axis of the grid that parts of it are stages along.

    Raises `ShardingError` for parts that are none.

    >>> first, second = (SubCluster(f"s{at}", "g", (at, 0), (1, 4)) for at in (0, 1))
    >>> stage_axis([first, second], Grid("g", (2, 4)))
    0
    """
    for at, part in enumerate(parts):
        for other in parts[:at]:
            if part.overlaps(other):
                raise ShardingError(
                    f"stages {other} and {part} have devices in common: expected none"
                )
            if part.sizes != other.sizes:
                raise ShardingError(
                    f"stages {other} and {part} are of different sizes: expected equal ones"
                )
    for part in parts:
        cut = [axis for axis in range(grid.rank) if part.sizes[axis] != grid.shape[axis]]
        if len(cut) != 1 or part.sizes[cut[0]] != 1:
            raise ShardingError(
                f"stage {part} of {grid} is not the devices with one index along one axis"
            )
    return next(axis for axis in range(grid.rank) if parts[0].sizes[axis] != grid.shape[axis])
