"""How a tensor lies, in the bare form that the planner searches.

A layout is the axes that split each dimension, and those that it is partial over. A `Problem` says
what is the same for all layouts of one search; costs are in units of 1/`Problem.unit` elements, so
that the share of any group is a whole number of them.

Shards of a dimension are equal but for the last ones, which are smaller where the devices do not
divide it: 5 elements on 4 devices lie as 2, 2, 1, 0. A cut of shards is such a layout again only
where it *nests*: 5 on 2 is 3, 2, which no cut of 2, 2 | 1, 0 gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from shard_dialect.model.sharding import Shape

Run = tuple[int, ...]
"""Axes, by their numbers in `Problem.sizes`."""

Layout = tuple[tuple[Run, ...], Run]
"""The split axes of each dimension, and the partial axes, sorted."""


@dataclass(frozen=True)
class Problem:
    """A tensor of `shape` on a grid of axes of `sizes`; `uneven` dimensions need not divide."""

    sizes: tuple[int, ...]
    shape: Shape
    uneven: tuple[bool, ...]
    source: Layout
    target: Layout

    @cached_property
    def unit(self) -> int:
        return prod(self.sizes)

    def count(self, axes: Sequence[int]) -> int:
        return prod([self.sizes[axis] for axis in axes])

    def shard(self, dim: int, count: int) -> int:
        """The size of the largest of `count` shards of dimension `dim`."""
        return -(-self.shape[dim] // count)

    def elements(self, layout: Layout) -> int:
        """The number of elements of a device's shard, the largest one."""
        count = self.count
        return prod(
            [-(-size // count(run)) for size, run in zip(self.shape, layout[0], strict=True)]
        )

    def nests(self, dim: int, outer: int, inner: int) -> bool:
        """Whether cutting the shards of `outer` devices gives those of `inner`."""
        size = self.shape[dim]
        if size % inner == 0:
            return True
        return self.uneven[dim] and (
            outer == 1 or self.shard(dim, outer) == self.shard(dim, inner) * (inner // outer)
        )

    def may_split(self, layout: Layout, dim: int, axes: Run) -> bool:
        """Whether `axes` can split dimension `dim` further."""
        outer = self.count(layout[0][dim])
        return self.nests(dim, outer, outer * self.count(axes))

    def may_join(self, layout: Layout, dim: int, axes: Run) -> bool:
        """Whether the shards along the minor `axes` of dimension `dim` make up larger ones."""
        inner = self.count(layout[0][dim])
        return self.nests(dim, inner // self.count(axes), inner)


def free_axes(problem: Problem, layout: Layout) -> Run:
    """The axes that `layout` does not use."""
    used = {axis for run in layout[0] for axis in run} | set(layout[1])
    return tuple(axis for axis in range(len(problem.sizes)) if axis not in used)
