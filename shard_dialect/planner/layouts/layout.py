"""Layouts: shardings in the reduced form that the planner searches.

A layout is the axes that split each dimension, and the axes over which the tensor is partial. A
`Problem` has what all layouts of one search share. Costs are in units of 1/`Problem.unit` elements,
so that they are integers for groups of any size.

The shards of an uneven dimension are equal, but the last ones are smaller: 5 elements on 4 devices
are 2, 2, 1, 0. Splitting shards further gives such shards again only where they *nest*. On 2
devices the shards are 3, 2, which do not nest: joining 2, 2 | 1, 0 gives 4, 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Shape, Sharding

AxisNumbers = tuple[int, ...]
"""Axes, by their numbers in `Problem.sizes`."""

Layout = tuple[tuple[AxisNumbers, ...], AxisNumbers]
"""The split axes of each dimension, and the partial axes, sorted."""


@dataclass(frozen=True)
class Problem:
    """A tensor of `shape` on a grid with axes of `sizes`; `uneven` dimensions may be uneven."""

    sizes: tuple[int, ...]
    shape: Shape
    uneven: tuple[bool, ...]
    source: Layout
    target: Layout

    @cached_property
    def unit(self) -> int:
        """How many cost units one element is: the number of devices."""
        return prod(self.sizes)

    def count(self, axes: Sequence[int]) -> int:
        """The number of devices of a group along `axes`."""
        return prod([self.sizes[axis] for axis in axes])

    def shard(self, dim: int, count: int) -> int:
        """The size of the largest of `count` shards of dimension `dim`."""
        return -(-self.shape[dim] // count)

    def elements(self, layout: Layout) -> int:
        """The number of elements of the largest shard."""
        found = self._elements.get(layout[0])
        if found is None:
            counts = map(self.count, layout[0])
            found = prod([-(-size // n) for size, n in zip(self.shape, counts, strict=True)])
            self._elements[layout[0]] = found
        return found

    @cached_property
    def _elements(self) -> dict[tuple[AxisNumbers, ...], int]:
        """What `elements` has found: a search asks for the same layouts many times."""
        return {}

    def nests(self, dim: int, outer: int, inner: int) -> bool:
        """Whether splitting each of `outer` shards of `dim` further gives its `inner` shards."""
        size = self.shape[dim]
        return size % inner == 0 or (self.uneven[dim] and _nests(size, outer, inner))

    def may_split(self, layout: Layout, dim: int, axes: AxisNumbers) -> bool:
        """Whether `axes` can split dimension `dim` further."""
        outer = self.count(layout[0][dim])
        return self.nests(dim, outer, outer * self.count(axes))

    def may_join(self, layout: Layout, dim: int, axes: AxisNumbers) -> bool:
        """Whether joining the shards along the minor `axes` of `dim` gives valid larger shards."""
        inner = self.count(layout[0][dim])
        return self.nests(dim, inner // self.count(axes), inner)


def _nests(size: int, outer: int, inner: int) -> bool:
    return outer == 1 or -(-size // outer) == -(-size // inner) * (inner // outer)


def nests(a: Sharding, b: Sharding, shape: Shape, grid: Grid) -> bool:
    """Whether in each dimension that both split, the shards of one are parts of the other's.

    >>> a, b, grid = Sharding("g", ((0,),)), Sharding("g", ((0, 1),)), Grid("g", (2, 2))
    >>> nests(a, b, (7,), grid), nests(a, b, (5,), grid)
    (True, False)
    """
    for size, *axes in zip(shape, a.split_axes, b.split_axes, strict=True):
        outer, inner = sorted(map(grid.axes_size, axes))
        if axes[0] != axes[1] and size % inner and not _nests(size, outer, inner):
            return False
    return True


def free_axes(problem: Problem, layout: Layout) -> AxisNumbers:
    """The axes that `layout` does not use."""
    used = {axis for axes in layout[0] for axis in axes} | set(layout[1])
    return tuple(axis for axis in range(len(problem.sizes)) if axis not in used)
