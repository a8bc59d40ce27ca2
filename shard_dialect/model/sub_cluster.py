"""Sub-clusters of a grid: boxes of its devices, on which a part of a program runs.

    @g(4)      0 1 | 2 3      @a = the first two, @b = the last two
    @g(2x2)    0 1 | 2 3      the same devices on a refined grid: @a has index 0 of axis 0, @b has 1

Along some axes of a refined grid a sub-cluster has all indices: its **free axes**. A tensor of a
sub-cluster is sharded over these. Along the others it has one index, mostly:

    @g(6)      0 1 2 3 | 4 5  @a = the first four
    @g(3x2)    0 1 2 3 | 4 5  @a has 0 and 1 of axis 0: two devices hold each shard along axis 1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from shard_dialect.errors import as_symbol
from shard_dialect.model.grid import Axis, Grid, SubAxis
from shard_dialect.model.grid_refinement import Refinement
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

    def place(self, grid: Grid, fine: Grid) -> Place:
        """Where it is on `fine`, a refinement of `grid`.

        >>> SubCluster("a", "g", (2,), (2,)).place(Grid("g", (4,)), Grid("h", (2, 2))).fixed
        {0: 1}
        """
        return _place(self, grid, fine)

    def refinement(self, of_grid: Refinement) -> Refinement:
        """The refinement of the sub-cluster's own grid, given that of the grid it is a part of.

        A tensor sharded along an axis is sharded along the free axes in it alone.
        """
        free = self.place(of_grid.grid, of_grid.fine).free
        axes: list[tuple[tuple[int, int, int], ...]] = []
        for axis, size in enumerate(self.sizes):
            whole = of_grid.grid.axes_size((axis,))
            factors = of_grid.axes[axis] if size > 1 else ()
            # Of the same stride as in the whole axis, whose indices begin at the offset.
            inner = [
                (size * pre // whole, count, new) for pre, count, new in factors if new in free
            ]
            axes.append(tuple(inner))
        grid = Grid(self.name, self.sizes)
        return Refinement(grid, of_grid.fine, tuple(axes))

    def text_in(self, grid: Grid) -> str:
        """The axes of `grid` of which it has a part that is no multiple, as text.

        >>> SubCluster("a", "g", (1, 0), (2, 2)).text_in(Grid("g", (3, 2)))
        'devices 1 to 2 of 3 along axis 0, no multiple of 2'
        """
        texts = []
        for axis, (offset, size) in enumerate(zip(self.offsets, self.sizes, strict=True)):
            whole = grid.axes_size((axis,))
            if whole % size or offset % size:
                which = f"devices {offset} to {offset + size - 1} of {whole}"
                texts.append(f"{which} along axis {axis}, no multiple of {size}")
        return " and ".join(texts) or f"axes of {grid} that cross those of others"

    def __str__(self) -> str:
        return f"{as_symbol(self.name)}({'x'.join(map(str, self.sizes))})"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part of the devices is on a grid.

    `indices` are those of its devices along `axes`; along the others, it has all.
    """

    grid: Grid
    axes: tuple[int, ...] = ()
    indices: frozenset[tuple[int, ...]] = frozenset({()})

    @property
    def free(self) -> tuple[int, ...]:
        """The axes along which tensors of the part may be sharded."""
        return tuple(axis for axis in range(self.grid.rank) if axis not in self.axes)

    @property
    def size(self) -> int:
        """The number of its devices."""
        return len(self.indices) * self.grid.axes_size(self.free)

    @property
    def fixed(self) -> dict[int, int] | None:
        """The index along each of `axes`; `None` if there are several."""
        if len(self.indices) > 1:
            return None
        (index,) = self.indices
        return dict(zip(self.axes, index, strict=True))

    def holds(self, rank: int) -> bool:
        """Whether device `rank` is of the part."""
        at = self.grid.coordinates(rank)
        return tuple(at[axis] for axis in self.axes) in self.indices

    def is_apart_from(self, other: Place) -> bool:
        """Whether it is seen from the indices along the axes of both that they share no device."""
        return self.axes == other.axes and self.indices.isdisjoint(other.indices)


@lru_cache(maxsize=1024)
def _place(part: SubCluster, grid: Grid, fine: Grid) -> Place:
    """As `SubCluster.place`, which goes through all devices of the grid."""
    at = {fine.coordinates(rank) for rank in range(grid.size) if part.holds(rank, grid)}
    axes = [
        axis
        for axis, size in enumerate(fine.sizes_along(range(fine.rank)))
        if len({_without(each, axis) for each in at}) * size != len(at)
    ]
    indices = {tuple(each[axis] for axis in axes) for each in at}
    return Place(fine, tuple(axes), frozenset(indices))


def refine_for(
    parts: Sequence[SubCluster], grid: Grid, used: Iterable[Axis], preferred: Iterable[Axis] = ()
) -> Refinement:
    """The refinement of `grid` on which parts have as many free axes as they can.

    It has the axes `used`, and those `preferred`, and those that parts consist of, but for the ones
    that cross an earlier one. Raises `ShardingError` where axes that are used cross each other.

    >>> halves = [SubCluster("a", "g", (0,), (2,)), SubCluster("b", "g", (2,), (2,))]
    >>> print(refine_for(halves, Grid("g", (4,)), ()).fine)
    @g_2x2(2x2)
    >>> print(refine_for([SubCluster("a", "g", (0,), (4,))], Grid("g", (6,)), ()).fine)
    @g_3x2(3x2)
    >>> two_and_three = [SubCluster("a", "g", (0,), (2,)), SubCluster("b", "g", (3,), (3,))]
    >>> print(refine_for(two_and_three, Grid("g", (6,)), ()).fine)
    @g_3x2(3x2)
    """
    kept = list(used)
    refinement = Refinement.of(grid, kept)
    for axis in (*preferred, *_axes_of(parts, grid)):
        try:
            refinement = Refinement.of(grid, [*kept, axis])
        except ShardingError:  # it crosses another one
            continue
        kept.append(axis)
    if refinement is not None:
        return refinement
    axes = tuple(((1, size, axis),) for axis, size in enumerate(grid.sizes_along(range(grid.rank))))
    return Refinement(grid, grid, axes)


def _axes_of(parts: Sequence[SubCluster], grid: Grid) -> Iterator[Axis]:
    """The sub-axes of `grid` that parts consist of."""
    for part in parts:
        for axis, (offset, size) in enumerate(zip(part.offsets, part.sizes, strict=True)):
            whole = grid.axes_size((axis,))
            unit = gcd(whole, size, offset)
            if 1 < unit < whole:
                yield SubAxis(axis, whole // unit, unit)


def whole_axis(axis: Axis, part: SubCluster, grid: Grid) -> Axis | None:
    """The (sub-)axis of `grid` that a (sub-)axis of the part's own grid is.

    `None` if there is none, where the part does not begin at a multiple of its size.

    >>> line = Grid("g", (6,))
    >>> whole_axis(0, SubCluster("a", "g", (2,), (2,)), line)
    SubAxis(axis=0, pre=3, size=2)
    >>> whole_axis(0, SubCluster("a", "g", (1,), (2,)), line) is None
    True
    """
    number, pre, size = (
        (axis.axis, axis.pre, axis.size)
        if isinstance(axis, SubAxis)
        else (axis, 1, part.sizes[axis])
    )
    whole = grid.axes_size((number,))
    outer = part.sizes[number] // pre  # the devices of one index of the major part
    if whole % outer or part.offsets[number] % outer:
        return None
    return number if size == whole else SubAxis(number, whole // outer, size)


def _without(coordinates: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return coordinates[:axis] + coordinates[axis + 1 :]
