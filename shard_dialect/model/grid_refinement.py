"""Refined grids: the same devices with more axes, so that each sub-axis is an axis.

    @g(8x2) with 0:(1)2 in use    @g_2x4x2: axis 0 is axes 0 and 1, and 0:(1)2 is axis 0

The devices and their ranks stay the same.

**Common grids** are grids on which shardings on several grids of the same devices can be said:

    @a(4) and @b(2x2)                         axis 0 of @a is axes 0 and 1 of @b
    @a(2x2) and @b(2x2, devices 0 2 1 3)      axes 0 and 1 of @b are axes 1 and 0 of @a
    @a(6) with 0:(1)2 and 0:(1)3 in use       no common grid: one is on 2x3, the other on 3x2

An axis consists of digits, each with a stride and a size: along a digit, the position of a device
in an order of all devices grows by the stride. Axes can be said on one grid if the strides of their
digits, and the strides times the sizes, divide one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from shard_dialect.model.factor_projection import sub_axes_of
from shard_dialect.model.grid import Axes, Axis, Grid, SubAxis
from shard_dialect.model.sharding import Sharding, ShardingError, Sizes

_LARGEST = 1 << 12
"""The largest prime that `prime_factors` tries. It takes a remainder without smaller factors as one
prime: sub-axes of such sizes make no plan better, and finding them would take long."""


@lru_cache(maxsize=1024)
def prime_factors(size: int) -> tuple[int, ...]:
    """The prime factors of a number, small ones first."""
    factors = []
    prime = 2
    while size > 1:
        if prime > _LARGEST or prime * prime > size:
            prime = size
        while size % prime == 0:
            factors.append(prime)
            size //= prime
        prime += 1
    return tuple(factors)


@dataclass(frozen=True)
class Refinement:
    """`axes[a]` are the sub-axes that axis a of `grid` becomes, and their numbers in `fine`."""

    grid: Grid
    fine: Grid
    axes: tuple[tuple[tuple[int, int, int], ...], ...]
    """For each axis (pre-size, size, new axis), major to minor."""

    @classmethod
    def of(cls, grid: Grid, used: Iterable[Axis]) -> Refinement | None:
        """The refinement that makes each sub-axis in `used` an axis; `None` if there are none.

        Raises `ShardingError` where two sub-axes cross, as factors 2 and 3 of an axis of 6 do.

        >>> found = Refinement.of(Grid("g", (8, 2)), [SubAxis(0, 2, 2)])
        >>> str(found.fine), str(found.refined(Sharding("g", ((0, 1), (), ()))))
        ('@g_2x2x2x2(2x2x2x2)', '[[0, 1, 2, 3], [], []]')
        """
        sub_axes = [axis for axis in used if isinstance(axis, SubAxis)]
        if not sub_axes:
            return None
        sizes: list[int] = []
        axes = []
        for number, full in enumerate(grid.shape):
            bounds = {1, full or 1}
            for sub_axis in sub_axes:
                if sub_axis.axis == number:
                    bounds |= {sub_axis.pre, sub_axis.end}
            ordered = sorted(bounds)
            factors_of_axis = []
            for pre, end in pairwise(ordered):
                if end % pre:
                    raise ShardingError(
                        f"axis {number} of grid {grid} is used in sub-axes of {pre} and {end}, "
                        "which cross each other"
                    )
                factors_of_axis.append((pre, end // pre, len(sizes)))
                sizes.append(end // pre)
            if not factors_of_axis:  # an axis of size 1
                factors_of_axis.append((1, 1, len(sizes)))
                sizes.append(1)
            axes.append(tuple(factors_of_axis))
        name = f"{grid.name}_{'x'.join(map(str, sizes))}"
        stages = tuple(new for axis in grid.stage_axes for _, _, new in axes[axis])
        names = _names_of_parts(grid, axes, len(sizes))
        fine = replace(grid, name=name, shape=tuple(sizes), axes=names, stage_axes=stages)
        return cls(grid, fine, tuple(axes))

    @classmethod
    def finest(cls, grid: Grid) -> Refinement | None:
        """The refinement of every axis to primes, small ones major; `None` if all are prime.

        >>> print(Refinement.finest(Grid("g", (12, 2))).fine)
        @g_2x2x3x2(2x2x3x2)
        """
        sub_axes = []
        for axis, size in enumerate(grid.shape):
            pre = 1
            for factor in prime_factors(size or 1):
                if factor != size:
                    sub_axes.append(SubAxis(axis, pre, factor))
                pre *= factor
        return cls.of(grid, sub_axes)

    def refined(self, sharding: Sharding) -> Sharding:
        """The same sharding, on the finer grid.

        Along axes of size 1 that the finer grid has not, a device has all of a dimension, without a
        halo, which would be outside of the tensor, and without offsets.
        """
        split = tuple(map(self.refined_axes, sharding.split_axes))

        def kept(sizes: tuple[Sizes, ...]) -> tuple[Sizes, ...]:
            return tuple(each if split[dim] else () for dim, each in enumerate(sizes))

        return replace(
            sharding,
            grid=self.fine.name,
            split_axes=split,
            partial=self.refined_axes(sharding.partial),
            halos=kept(sharding.halos),
            offsets=kept(sharding.offsets),
        )

    def refined_axes(self, axes: Axes) -> Axes:
        """The axes of the finer grid that `axes` become."""
        return tuple(
            new
            for axis, pre, size in sub_axes_of(axes, self.grid)
            for at, count, new in self.axes[axis]
            if pre <= at and at * count <= pre * size
        )


def _names_of_parts(
    grid: Grid, axes: Sequence[Sequence[tuple[int, int, int]]], rank: int
) -> tuple[str, ...]:
    """Names for the axes of a finer grid, given what each axis of `grid` becomes on it."""
    parts = {new: (axis, pre, size) for axis, each in enumerate(axes) for pre, size, new in each}
    return grid.parts_named([parts[new] for new in range(rank)]) if len(parts) == rank else ()


Digit = tuple[int, int]
"""A stride and a size."""
Use = tuple[Grid, Axes]
"""A grid of known sizes, and the axes of it that one sharding uses."""


def common_refinements(
    uses: Iterable[Use], declared: Iterable[Grid] = ()
) -> dict[Use, Refinement | None]:
    """For each use, a refinement of its grid; they have as few different finer grids as possible.

    Grids of as many devices are of the same devices. A refinement has the axes in use, and those
    other axes of the grid that can be said on the finer grid. It is `None` where the finer grid is
    the grid itself. A finer grid has no name that another grid of `declared` has.

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
    fine = {id(common): common.grid(grids, declared) for common in commons}
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

    size: int
    order: tuple[int, ...]
    bounds: set[int] = field(default_factory=set)
    grids: list[Grid] = field(default_factory=list)
    """The grids of which it has all axes."""

    @classmethod
    def of(cls, grid: Grid, axes: Axes) -> _Common:
        """The common grid of a use, in the order of the ranks if that is possible."""
        for order in ((), grid.device_ids):
            common = cls(grid.size, order, {1, grid.size})
            if common.take(grid, axes):
                return common
        raise AssertionError("axes of a grid can be said in its own order")

    def take(self, grid: Grid, axes: Axes) -> bool:
        """Add refinements by which `axes` of `grid` can be expressed; returns whether it works."""
        digits = _digits_of(grid, axes, self.order) if grid.size == self.size else None
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

    def grid(self, known: Sequence[Grid], declared: Iterable[Grid]) -> Grid:
        """The grid itself: one of `known`, or else with a new name."""
        bounds = sorted(self.bounds, reverse=True)
        shape = tuple(larger // smaller for larger, smaller in pairwise(bounds))
        stages = {
            axis
            for grid in self.grids
            for axis in self.refinement(grid, Grid("", shape)).refined_axes(grid.stage_axes)
            if isinstance(axis, int)
        }
        for grid in (*self.grids, *known):
            if (grid.shape, grid.device_ids, {*grid.stage_axes}) == (shape, self.order, stages):
                return grid
        first = (self.grids or known)[0]
        taken = {each.name: (each.shape, each.device_ids) for each in (*known, *declared)}
        name = base = f"{first.name}_{'x'.join(map(str, shape))}"
        number = 1
        while taken.get(name, (shape, self.order)) != (shape, self.order):
            number += 1
            name = f"{base}_{number}"
        axes = self.refinement(first, Grid("", shape)).axes if self.grids else ()
        names = _names_of_parts(first, axes, len(shape))
        return Grid(name, shape, names, self.order, tuple(sorted(stages)))

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
            if (
                len(positions) % (run * count) == 0
                and list(positions[: run * count : run])
                == [index * stride for index in range(count)]
            )
            or count == 1
        )
        if size == 1:
            size = len(positions) // run  # not even: the caller finds out
        digits.insert(0, (stride, size))
        run *= size
    return tuple(digits)
