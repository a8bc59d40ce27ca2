"""A grid of devices: `shard.grid @g(shape = 2x4)`, the RFC's `mesh.cluster`, Shardy's mesh.

Ranks count through the grid in row-major order, the last axis fastest:

    shape 2x3      axis 1 ->
                   0 1 2
          axis 0 | 3 4 5
                 v
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod

from shard_dialect.errors import ShardError


@dataclass(frozen=True, slots=True)
class Grid:
    """A named grid; `shape[i]` is the size of grid axis i, or `None` where it is not known.

    >>> Grid("g", (2, 3)).size
    6
    """

    name: str
    shape: tuple[int | None, ...]

    def __post_init__(self) -> None:
        if not self.shape:
            raise ShardError(f"grid @{self.name} has no axes: it needs at least one")
        for axis, size in enumerate(self.shape):
            if size is not None and size < 1:
                raise ShardError(
                    f"grid @{self.name} has size {size} on axis {axis}: sizes are at least 1"
                )

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return None not in self.shape

    @property
    def size(self) -> int:
        """The number of devices."""
        return self.axes_size(range(self.rank))

    def axes_size(self, axes: Sequence[int]) -> int:
        """The number of devices in one group along `axes`.

        >>> Grid("g", (2, 3, 4)).axes_size((0, 2))
        8
        """
        return prod(self._known(axis) for axis in axes)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Where device `rank` stands.

        >>> Grid("g", (2, 3)).coordinates(5)
        (1, 2)
        """
        position = []
        for axis in reversed(range(self.rank)):
            rank, coordinate = divmod(rank, self._known(axis))
            position.append(coordinate)
        return tuple(reversed(position))

    def rank_at(self, coordinates: Sequence[int]) -> int:
        """The device at `coordinates`; the inverse of `coordinates`."""
        rank = 0
        for axis, coordinate in enumerate(coordinates):
            rank = rank * self._known(axis) + coordinate
        return rank

    def index_along(self, rank: int, axes: Sequence[int]) -> int:
        """The place of device `rank` in its group along `axes`, the last listed axis fastest.

        >>> Grid("g", (2, 3)).index_along(5, (1, 0))
        5
        >>> Grid("g", (2, 3)).index_along(3, (1, 0))
        1
        """
        at = self.coordinates(rank)
        index = 0
        for axis in axes:
            index = index * self._known(axis) + at[axis]
        return index

    def groups(self, axes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """All device groups along `axes`, each in the order of its members' `index_along`.

        >>> Grid("g", (2, 2)).groups((1,))
        ((0, 1), (2, 3))
        >>> Grid("g", (2, 2)).groups((1, 0))
        ((0, 2, 1, 3),)
        """
        return _groups(self, tuple(axes))

    def group_of(self, rank: int, axes: Sequence[int]) -> tuple[int, ...]:
        """The group along `axes` that device `rank` belongs to."""
        return _group_of(self, rank, tuple(axes))

    def _known(self, axis: int) -> int:
        size = self.shape[axis]
        if size is None:
            raise ShardError(
                f"grid @{self.name} has an unknown size on axis {axis}: give its size to go on"
            )
        return size

    def __str__(self) -> str:
        return f"@{self.name}({'x'.join('?' if s is None else str(s) for s in self.shape)})"


@cache
def _group_of(grid: Grid, rank: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    return next(group for group in grid.groups(axes) if rank in group)


@cache
def _groups(grid: Grid, axes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    others = [axis for axis in range(grid.rank) if axis not in axes]

    def ranks(fixed: dict[int, int]) -> tuple[int, ...]:
        members = product(*(range(grid._known(axis)) for axis in axes))
        places = (fixed | dict(zip(axes, member, strict=True)) for member in members)
        return tuple(grid.rank_at([place[axis] for axis in range(grid.rank)]) for place in places)

    outer = product(*(range(grid._known(axis)) for axis in others))
    return tuple(ranks(dict(zip(others, place, strict=True))) for place in outer)
