"""Refined grids: the same devices with more axes, so that each sub-axis is an axis.

    @g(8x2) with 0:(1)2 in use    @g_2x4x2: axis 0 is axes 0 and 1, and 0:(1)2 is axis 0

The devices and their ranks stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from shard_dialect.model.axis import Axes, Axis, SubAxis
from shard_dialect.model.factor_projection import sub_axes_of
from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Sharding, ShardingError

_LARGEST = 1 << 12
"""The largest prime that `_factors` tries. It takes a remainder without smaller factors as one
prime: sub-axes of such sizes make no plan better, and finding them would take long."""


@lru_cache(maxsize=1024)
def _factors(size: int) -> tuple[int, ...]:
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
        fine = replace(grid, name=name, shape=tuple(sizes), axis_names=(), stage_axes=stages)
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
            for factor in _factors(size or 1):
                if factor != size:
                    sub_axes.append(SubAxis(axis, pre, factor))
                pre *= factor
        return cls.of(grid, sub_axes)

    def refined(self, sharding: Sharding) -> Sharding:
        """The same sharding, on the finer grid."""
        return replace(
            sharding,
            grid=self.fine.name,
            split_axes=tuple(map(self.refined_axes, sharding.split_axes)),
            partial=self.refined_axes(sharding.partial),
        )

    def refined_axes(self, axes: Axes) -> Axes:
        """The axes of the finer grid that `axes` become."""
        return tuple(
            new
            for axis, pre, size in sub_axes_of(axes, self.grid)
            for at, count, new in self.axes[axis]
            if pre <= at and at * count <= pre * size
        )
