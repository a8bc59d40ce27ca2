"""Steps of the local form that no reshard needs: those with a root, and shifts.

One device of each group, the root, has what the others get, or gets what they have; `root` is its
index along each of `axes`. What others are left with is not said: here it is zeros, or the same.
Source: upstream's documentation of the `shard` dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from shard_dialect.model.axis import Axes
from shard_dialect.model.collectives import scaled
from shard_dialect.model.sharding import Reduction, Shape

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Give every device of a group what its root has."""

    axes: Axes
    root: Index
    kind: ClassVar[str] = "broadcast"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return prod(operand) * itemsize if n > 1 else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return shape


@dataclass(frozen=True, slots=True)
class Gather:
    """Give the root all shards of dimension `dim`, in group order."""

    dim: int
    axes: Axes
    root: Index
    kind: ClassVar[str] = "gather"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return (n - 1) * prod(operand) * itemsize

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return scaled(shape, {self.dim: (n, 1)})


@dataclass(frozen=True, slots=True)
class Scatter:
    """Give every device its shard along `dim` of what the root has."""

    dim: int
    axes: Axes
    root: Index
    kind: ClassVar[str] = "scatter"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return (n - 1) * prod(operand) * itemsize // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return scaled(shape, {self.dim: (1, n)})


@dataclass(frozen=True, slots=True)
class Reduce:
    """Combine what the devices of a group have; the root gets the result."""

    axes: Axes
    root: Index
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "reduce"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return (n - 1) * prod(operand) * itemsize

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return shape


@dataclass(frozen=True, slots=True)
class Shift:
    """Each device gives what it has to the one `offset` further along grid axis `along`.

    In a circle if it should `rotate`; else those at the begin, for whom there is none, get zeros.
    """

    axes: Axes
    along: int
    offset: int
    rotate: bool = False
    kind: ClassVar[str] = "shift"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return prod(operand) * itemsize if n > 1 and self.offset else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return shape

    def moved(self, index: Index, sizes: Sequence[int], by: int) -> Index | None:
        """The index that is `by` further along the axis, in a group of `sizes`, if there is one.

        >>> Shift((0, 1), along=1, offset=1).moved((0, 2), (2, 3), by=1)
        >>> Shift((0, 1), along=1, offset=1, rotate=True).moved((0, 2), (2, 3), by=1)
        (0, 0)
        """
        dim = self.axes.index(self.along)
        place = index[dim] + by
        if self.rotate:
            place %= sizes[dim]
        is_there = 0 <= place < sizes[dim]
        return (*index[:dim], place, *index[dim + 1 :]) if is_there else None

    def partners(self, place: int, sizes: Sequence[int]) -> tuple[int | None, int | None]:
        """To which member of a group goes what the one at `place` has, and whose it gets.

        >>> Shift((0, 1), along=1, offset=1).partners(2, (2, 3)), (2, 3)
        ((None, 1), (2, 3))
        """
        here = tuple(place // prod(sizes[dim + 1 :]) % size for dim, size in enumerate(sizes))
        to, origin = (self.moved(here, sizes, by) for by in (self.offset, -self.offset))
        return (
            None if to is None else place_of(to, sizes),
            None if origin is None else place_of(origin, sizes),
        )


RootedStep = Broadcast | Gather | Scatter | Reduce | Shift


def place_of(index: Index, sizes: Sequence[int]) -> int:
    """The place in a group of the member with an index along each axis.

    >>> place_of((1, 2), (2, 3))
    5
    """
    place = 0
    for each, size in zip(index, sizes, strict=True):
        place = place * size + each
    return place
