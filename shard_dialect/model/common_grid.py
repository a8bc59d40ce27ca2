"""Common grids: grids on which shardings on several grids of the same devices can be said.

    @a(4) and @b(2x2)                         axis 0 of @a is axes 0 and 1 of @b
    @a(2x2) and @b(2x2), devices 0 2 1 3      axes 0 and 1 of @b are axes 1 and 0 of @a
    @a(6) with 0:(1)2 and 0:(1)3 in use       no common grid: one is on 2x3, the other on 3x2

An axis consists of **digits**, each with a stride and a size: along a digit, the position of a
device in an order of all devices grows by the stride. Axes can be said on one grid if the strides
of their digits, and the strides times the sizes, divide one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from shard_dialect.model.axis import Axes, SubAxis
from shard_dialect.model.factor_projection import sub_axes_of
from shard_dialect.model.grid import Grid
from shard_dialect.model.grid_refinement import Refinement

Digit = tuple[int, int]
"""A stride and a size."""
Use = tuple[Grid, Axes]
"""A grid of known sizes, and the axes of it that one sharding uses."""


def common_refinements(uses: Iterable[Use]) -> dict[Use, Refinement | None]:
    """For each use, a refinement of its grid; they have as few different finer grids as possible.

    All grids are of the same devices. A refinement has the axes in use, and those other axes of the
    grid that can be said on the finer grid. It is `None` where the finer grid is the grid itself.

    >>> line, square = Grid("line", (4,)), Grid("square", (2, 2))
    >>> found = common_refinements([(line, (0,)), (square, (1,))])
    >>> refinement = found[line, (0,)]
    >>> str(refinement.fine), refinement.refined_axes((0,)), found[square, (1,)]
    ('@square(2x2)', (0, 1), None)
    """
    uses = list(dict.fromkeys(uses))
    grids = list(dict.fromkeys(grid for grid, _ in uses))
    if len(grids) == 1 and not grids[0].device_ids and not _cross(uses):
        refinement = Refinement.of(grids[0], [axis for _, axes in uses for axis in axes])
        return dict.fromkeys(uses, refinement)
    commons: list[_Common] = []
    for grid in grids:
        every = tuple(range(grid.rank))
        if not any(common.take(grid, every) for common in commons) and not commons:
            commons.append(_Common.of(grid, every))
    chosen: dict[Use, _Common] = {}
    for grid, axes in uses:
        taken = next((common for common in commons if common.take(grid, axes)), None)
        if taken is None:
            taken = _Common.of(grid, axes)
            taken.take(grid, tuple(range(grid.rank)))
            commons.append(taken)
        chosen[grid, axes] = taken
    fine = {id(common): common.grid(grids) for common in commons}
    return {
        (grid, axes): common.refinement(grid, fine[id(common)])
        if grid != fine[id(common)]
        else None
        for (grid, axes), common in chosen.items()
    }


def _cross(uses: Iterable[Use]) -> bool:
    """Whether two sub-axes in use cross each other."""
    ends: dict[int, set[int]] = {}
    for _, axes in uses:
        for axis in axes:
            if isinstance(axis, SubAxis):
                ends.setdefault(axis.axis, set()).update((axis.pre, axis.end))
    return any(
        larger % smaller for each in ends.values() for smaller, larger in pairwise(sorted(each))
    )


@dataclass
class _Common:
    """A common grid in the making: its order of the devices, and the bounds of its digits."""

    order: tuple[int, ...]
    bounds: set[int] = field(default_factory=set)
    grids: list[Grid] = field(default_factory=list)
    """The grids of which it has all axes."""

    @classmethod
    def of(cls, grid: Grid, axes: Axes) -> _Common:
        """The common grid of a use, in the order of the ranks if that is possible."""
        for order in ((), grid.device_ids):
            common = cls(order, {1, grid.size})
            if common.take(grid, axes):
                return common
        raise AssertionError("axes of a grid can be said in its own order")

    def take(self, grid: Grid, axes: Axes) -> bool:
        """Add what is needed to say `axes` of `grid`; returns whether that is possible."""
        digits = _digits_of(grid, axes, self.order)
        if digits is None:
            return False
        ends = {stride * size for stride, size in digits}
        bounds = sorted(self.bounds | ends | {stride for stride, _ in digits})
        if any(larger % smaller for smaller, larger in pairwise(bounds)):
            return False
        self.bounds = set(bounds)
        if axes == tuple(range(grid.rank)):
            self.grids.append(grid)
        return True

    def grid(self, known: Sequence[Grid]) -> Grid:
        """The grid itself: one of `known`, or else with a new name."""
        bounds = sorted(self.bounds, reverse=True)
        shape = tuple(larger // smaller for larger, smaller in pairwise(bounds))
        stages = {
            axis
            for grid in self.grids
            for axis in self.refinement(grid, Grid("", shape)).refined_axes(grid.stage_axes)
        }
        for grid in (*self.grids, *known):
            if (grid.shape, grid.device_ids, {*grid.stage_axes}) == (shape, self.order, stages):
                return grid
        first = (self.grids or known)[0]
        name = f"{first.name}_{'x'.join(map(str, shape))}"
        names = {grid.name for grid in known}
        number = 1
        while name in names:
            number += 1
            name = f"{first.name}_{'x'.join(map(str, shape))}_{number}"
        return Grid(name, shape, (), self.order, tuple(sorted(stages)))

    def refinement(self, grid: Grid, fine: Grid) -> Refinement:
        """The refinement of a grid to the common grid `fine`."""
        strides = sorted(self.bounds, reverse=True)[1:]
        axes = []
        for axis in range(grid.rank):
            digits = _digits_of(grid, (axis,), self.order)
            factors: list[tuple[int, int, int]] = []
            pre = 1
            for stride, size in digits or ():
                bounds = [each for each in strides if stride <= each < stride * size]
                for larger, smaller in pairwise([stride * size, *bounds]):
                    factors.append((pre, larger // smaller, strides.index(smaller)))
                    pre *= larger // smaller
            axes.append(tuple(factors))
        return Refinement(grid, fine, tuple(axes))


@lru_cache(maxsize=1024)
def _digits_of(grid: Grid, axes: Axes, order: tuple[int, ...]) -> tuple[Digit, ...] | None:
    """The digits of (sub-)axes of a grid, major to minor; `None` if they have none in `order`.

    >>> _digits_of(Grid("g", (2, 2), device_ids=(0, 2, 1, 3)), (0, 1), ())
    ((1, 2), (2, 2))
    >>> _digits_of(Grid("g", (2, 2), device_ids=(0, 1, 3, 2)), (0, 1), ()) is None
    True
    """
    by_axis = _digits(grid, order)
    found: list[Digit] = []
    for axis, pre, size in sub_axes_of(axes, grid):
        before = 1
        for stride, count in by_axis[axis] if by_axis is not None else ():
            # The part of this digit that lies within the sub-axis.
            begin, end = max(pre, before), min(pre * size, before * count)
            if begin < end:
                if begin % before or end % begin or before * count % end:
                    return None
                found.append((stride * (before * count // end), end // begin))
            before *= count
    return None if by_axis is None else tuple(found)


@lru_cache(maxsize=1024)
def _digits(grid: Grid, order: tuple[int, ...]) -> tuple[tuple[Digit, ...], ...] | None:
    """The digits of each axis, major to minor; `None` if some axis does not consist of any."""
    rank_of = grid.device_ids or range(grid.size)
    position_of = {rank: position for position, rank in enumerate(order or range(grid.size))}
    positions = [position_of[rank] for rank in rank_of]
    by_axis = []
    below = grid.size
    for size in grid.sizes_along(range(grid.rank)):
        below //= size
        by_axis.append(_digits_along(positions[: below * size : below]))
    digits = [digit for each in by_axis for digit in each]
    said = [0]
    for stride, size in digits:
        said = [first + index * stride for first in said for index in range(size)]
    return tuple(by_axis) if said == positions else None


def _digits_along(positions: Sequence[int]) -> tuple[Digit, ...]:
    """Digits, major to minor, along which positions grow from the first one evenly, if any do.

    >>> _digits_along([0, 1, 4, 5])
    ((4, 2), (1, 2))
    """
    digits: list[Digit] = []
    run = 1
    while run < len(positions):
        stride = positions[run]
        size = max(
            count
            for count in range(1, len(positions) // run + 1)
            if len(positions) % (run * count) == 0
            and list(positions[: run * count : run])
            == [index * stride for index in range(count)]
            or count == 1
        )
        if size == 1:
            size = len(positions) // run  # not even: who calls finds out
        digits.insert(0, (stride, size))
        run *= size
    return tuple(digits)
