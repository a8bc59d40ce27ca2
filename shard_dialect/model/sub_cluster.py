"""Sub-clusters of a grid: boxes of its devices, on which a part of a program runs.

    @g(4)      0 1 | 2 3      @a = the first two, @b = the last two
    @g(2x2)    0 1 | 2 3      the same devices on a refined grid: @a has index 0 of axis 0, @b has 1

A sub-cluster has one index along some axes of a refined grid, its **fixed axes**, and all indices
along the others. A tensor of a sub-cluster is sharded over the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shard_dialect.model.axis import Axis, SubAxis
from shard_dialect.model.grid import Grid
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

    def fixed_axes(self, grid: Grid, fine: Grid) -> dict[int, int]:
        """The axes of `fine`, a refinement of `grid`, along which it has one index, with the index.

        Raises `ShardingError` if it is no box of `fine` with all or one index along each axis.

        >>> SubCluster("a", "g", (2,), (2,)).fixed_axes(Grid("g", (4,)), Grid("h", (2, 2)))
        {0: 1}
        """
        at = [fine.coordinates(rank) for rank in range(grid.size) if self.holds(rank, grid)]
        fixed = {}
        for axis, size in enumerate(fine.sizes_along(range(fine.rank))):
            indices = {coordinates[axis] for coordinates in at}
            if len(indices) == 1 < size:
                fixed[axis] = indices.pop()
            elif len(indices) != size:
                raise ShardingError(
                    f"{self} of {grid} has {len(indices)} of {size} devices along axis {axis} of "
                    f"{fine}: expected one or all"
                )
        return fixed

    def refinement(self, of_grid: Refinement) -> Refinement:
        """The refinement of the sub-cluster's own grid, given that of the grid it is a part of."""
        axes: list[tuple[tuple[int, int, int], ...]] = []
        for axis, size in enumerate(self.sizes):
            outer = of_grid.grid.axes_size((axis,)) // size
            factors = of_grid.axes[axis] if size > 1 else ()
            inner = [(pre // outer, count, new) for pre, count, new in factors if pre >= outer]
            axes.append(tuple(inner))
        grid = Grid(self.name, self.sizes)
        return Refinement(grid, of_grid.fine, tuple(axes))

    def __str__(self) -> str:
        return f"@{self.name}({'x'.join(map(str, self.sizes))})"


def refine_for(parts: Sequence[SubCluster], grid: Grid, used: Iterable[Axis]) -> Refinement:
    """The refinement of `grid` on which each part has fixed axes; it has the axes `used`, too.

    Raises `ShardingError` for a part that does not begin at a multiple of its size, or whose size
    does not divide that of the grid, and for parts that need axes which cross each other.

    >>> halves = [SubCluster("a", "g", (0,), (2,)), SubCluster("b", "g", (2,), (2,))]
    >>> print(refine_for(halves, Grid("g", (4,)), ()).fine)
    @g_2x2(2x2)
    """
    sub_axes = list(used)
    for part in parts:
        for axis, (offset, size) in enumerate(zip(part.offsets, part.sizes, strict=True)):
            whole = grid.axes_size((axis,))
            if whole % size or offset % size:
                raise ShardingError(
                    f"{part} of {grid} has {size} of {whole} devices along axis {axis}, from "
                    f"{offset} on: expected a size that divides {whole}, and an offset that it "
                    "divides"
                )
            if 1 < size < whole:
                sub_axes.append(SubAxis(axis, 1, whole // size))
    refinement = Refinement.of(grid, sub_axes)
    if refinement is not None:
        return refinement
    axes = tuple(((1, size, axis),) for axis, size in enumerate(grid.sizes_along(range(grid.rank))))
    return Refinement(grid, grid, axes)


def whole_axis(axis: Axis, part: SubCluster, grid: Grid) -> Axis:
    """The (sub-)axis of `grid` that a (sub-)axis of the part's own grid is."""
    number, pre, size = (
        (axis.axis, axis.pre, axis.size)
        if isinstance(axis, SubAxis)
        else (axis, 1, part.sizes[axis])
    )
    whole = grid.axes_size((number,))
    return number if size == whole else SubAxis(number, whole // part.sizes[number] * pre, size)
