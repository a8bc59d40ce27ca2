"""Steps of the local form that no reshard uses: collectives with a root, and shifts.

The root is the one device of each group that sends to the others, or receives from them; `root` is
its index along each of `axes`. Upstream does not define what the others hold afterwards: here they
hold zeros, or what they held before.
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
"""A device's index along each axis of its group."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Send the root's tensor to every device of its group."""

    axes: Axes
    root: Index
    kind: ClassVar[str] = "broadcast"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The operand, once."""
        return prod(operand) * itemsize if n > 1 else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The same shape."""
        return shape


@dataclass(frozen=True, slots=True)
class Gather:
    """Send all shards of dimension `dim` to the root, which joins them in group order."""

    dim: int
    axes: Axes
    root: Index
    kind: ClassVar[str] = "gather"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """What the root receives: n - 1 operands."""
        return (n - 1) * prod(operand) * itemsize

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """`dim` is n times as large."""
        return scaled(shape, {self.dim: (n, 1)})


@dataclass(frozen=True, slots=True)
class Scatter:
    """Send every device its shard, along `dim`, of the root's tensor."""

    dim: int
    axes: Axes
    root: Index
    kind: ClassVar[str] = "scatter"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """What the root sends: n - 1 of n shards."""
        return (n - 1) * prod(operand) * itemsize // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """`dim` is divided by n."""
        return scaled(shape, {self.dim: (1, n)})


@dataclass(frozen=True, slots=True)
class Reduce:
    """Reduce the tensors of a group's devices; the root gets the result."""

    axes: Axes
    root: Index
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "reduce"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """What the root receives: n - 1 operands."""
        return (n - 1) * prod(operand) * itemsize

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The same shape."""
        return shape


@dataclass(frozen=True, slots=True)
class Shift:
    """Each device sends its tensor to the one `offset` further along grid axis `along`.

    With `rotate` the last devices send to the first; without, devices that receive nothing get
    zeros.
    """

    axes: Axes
    along: int
    offset: int
    rotate: bool = False
    kind: ClassVar[str] = "shift"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The operand, once."""
        return prod(operand) * itemsize if n > 1 and self.offset else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The same shape."""
        return shape

    def moved(self, index: Index, sizes: Sequence[int], by: int) -> Index | None:
        """The index `by` further along the axis, in a group of `sizes`; `None` past the end.

        >>> Shift((0, 1), along=1, offset=1).moved((0, 2), (2, 3), by=1)
        >>> Shift((0, 1), along=1, offset=1, rotate=True).moved((0, 2), (2, 3), by=1)
        (0, 0)
        """
        dim = self.axes.index(self.along)
        moved = index[dim] + by
        if self.rotate:
            moved %= sizes[dim]
        exists = 0 <= moved < sizes[dim]
        return (*index[:dim], moved, *index[dim + 1 :]) if exists else None

    def partners(self, member: int, sizes: Sequence[int]) -> tuple[int | None, int | None]:
        """The members of a group that `member` sends to and receives from; `None` for nobody.

        >>> Shift((0, 1), along=1, offset=1).partners(2, (2, 3)), (2, 3)
        ((None, 1), (2, 3))
        """
        here = tuple(member // prod(sizes[dim + 1 :]) % size for dim, size in enumerate(sizes))
        to, origin = (self.moved(here, sizes, by) for by in (self.offset, -self.offset))
        return (
            None if to is None else flat_index(to, sizes),
            None if origin is None else flat_index(origin, sizes),
        )


RootedStep = Broadcast | Gather | Scatter | Reduce | Shift


def flat_index(index: Index, sizes: Sequence[int]) -> int:
    """The number within a group, in row-major order, of the member with this index.

    >>> flat_index((1, 2), (2, 3))
    5
    """
    number = 0
    for each, size in zip(index, sizes, strict=True):
        number = number * size + each
    return number
