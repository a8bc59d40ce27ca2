"""Layouts: shardings in the reduced form that the planner searches.

A layout is the axes that split each dimension, and the axes over which the tensor is partial. A
`Problem` has what all layouts of one search share. Costs are in units of 1/`Problem.unit` elements,
so that they are integers for groups of any size.

The shards of an uneven dimension are equal, but the last ones are smaller: 5 elements on 4 devices
are 2, 2, 1, 0. Splitting shards further gives such shards again only where they *nest*. On 2
devices the shards are 3, 2, which do not nest: joining 2, 2 | 1, 0 gives 4, 1.

`forward` and `backward` yield the edges of the search: the steps from a layout, and those to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from math import prod

from shard_dialect.collectives import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Mask,
    ReduceScatter,
    Step,
)
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
        """The memo of `elements`: a search asks for the same layouts many times."""
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


Move = tuple[Step, Layout, int]
"""A step, the layout after it (of `backward`: before it), and its cost in the problem's unit."""


def forward(problem: Problem, layout: Layout, labels: Sequence[object]) -> Iterator[Move]:
    """Every step from `layout`, one for each choice of free axes with the same labels."""
    partial = layout[1]
    free = free_axes(problem, layout)
    held = problem.elements(layout)
    for axes in _subsets(partial):
        n = problem.count(axes)
        yield (
            AllReduce(axes),
            _without_partial(layout, axes),
            2 * (n - 1) * held * problem.unit // n,
        )
    # Masks cost nothing, and the target needs all of them, so one step makes them all.
    masks = tuple(axis for axis in problem.target[1] if axis in free)
    if masks:
        yield Mask(masks), (layout[0], tuple(sorted(partial + masks))), 0
    for dim, run in enumerate(layout[0]):
        target = problem.target[0][dim][len(run) :]
        for axes in _axis_orders(free, labels, target):
            if problem.may_split(layout, dim, axes):
                yield AllSlice(dim, axes), _with_dims(layout, (dim, run + axes)), 0
        for axes in _axis_orders(partial, labels, target):
            if problem.may_split(layout, dim, axes):
                after = _with_dims(_without_partial(layout, axes), (dim, run + axes))
                cost = (problem.count(axes) - 1) * problem.elements(after) * problem.unit
                yield ReduceScatter(dim, axes), after, cost
        yield from _from_dim(problem, layout, dim)


def _from_dim(problem: Problem, layout: Layout, dim: int) -> Iterator[Move]:
    """The all-gathers of `dim`, and the all-to-alls from it."""
    run = layout[0][dim]
    held = problem.elements(layout)
    for start in range(len(run)):
        kept, axes = run[:start], run[start:]
        n = problem.count(axes)
        if not problem.may_join(layout, dim, axes):
            continue
        yield AllGather(dim, axes), _with_dims(layout, (dim, kept)), (n - 1) * held * problem.unit
        for to, there in enumerate(layout[0]):
            if to != dim and problem.may_split(layout, to, axes):
                after = _with_dims(layout, (dim, kept), (to, there + axes))
                yield AllToAll(dim, to, axes), after, _exchange(problem, layout, after, to, n)


def backward(problem: Problem, layout: Layout, labels: Sequence[object]) -> Iterator[Move]:
    """Every step that leads to `layout`, with the layout before it."""
    split, partial = layout
    free = free_axes(problem, layout)
    held = problem.elements(layout)
    for axes in _distinct_subsets(free, labels):
        n = problem.count(axes)
        before = (split, tuple(sorted(partial + axes)))
        yield AllReduce(axes), before, 2 * (n - 1) * held * problem.unit // n
    for axes in _subsets(partial):
        yield Mask(axes), _without_partial(layout, axes), 0
    for dim, run in enumerate(split):
        for axes in _axis_orders(free, labels, ()):
            before = _with_dims(layout, (dim, run + axes))
            if problem.may_join(before, dim, axes):
                cost = (problem.count(axes) - 1) * problem.elements(before) * problem.unit
                yield AllGather(dim, axes), before, cost
        yield from _to_dim(problem, layout, dim)


def _to_dim(problem: Problem, layout: Layout, dim: int) -> Iterator[Move]:
    """The slices, reduce-scatters and all-to-alls that add the minor axes of `dim`."""
    run = layout[0][dim]
    held = problem.elements(layout)
    for start in range(len(run)):
        kept, axes = run[:start], run[start:]
        n = problem.count(axes)
        before = _with_dims(layout, (dim, kept))
        if not problem.may_split(before, dim, axes):
            continue
        yield AllSlice(dim, axes), before, 0
        summed = (before[0], tuple(sorted(layout[1] + axes)))
        yield ReduceScatter(dim, axes), summed, (n - 1) * held * problem.unit
        for origin, there in enumerate(layout[0]):
            other = _with_dims(before, (origin, there + axes))
            if origin != dim and problem.may_join(other, origin, axes):
                yield AllToAll(origin, dim, axes), other, _exchange(problem, other, layout, dim, n)


def _with_dims(layout: Layout, *dims: tuple[int, AxisNumbers]) -> Layout:
    split = list(layout[0])
    for dim, axes in dims:
        split[dim] = axes
    return tuple(split), layout[1]


def _without_partial(layout: Layout, axes: AxisNumbers) -> Layout:
    """The layout without the partial `axes`."""
    return layout[0], tuple(axis for axis in layout[1] if axis not in axes)


def _exchange(problem: Problem, before: Layout, after: Layout, dim: int, n: int) -> int:
    """The cost of an all-to-all that splits `dim`: n - 1 equal slices of the padded shard."""
    size_before = problem.shard(dim, problem.count(before[0][dim]))
    size_after = problem.shard(dim, problem.count(after[0][dim]))
    return (n - 1) * (problem.elements(before) // max(size_before, 1)) * size_after * problem.unit


def _subsets(axes: AxisNumbers) -> Iterator[AxisNumbers]:
    for count in range(1, len(axes) + 1):
        yield from combinations(axes, count)


def _distinct_subsets(axes: AxisNumbers, labels: Sequence[object]) -> Iterator[AxisNumbers]:
    """The subsets of `axes`, one for each multiset of labels."""
    seen = set()
    for chosen in _subsets(axes):
        key = tuple(labels[axis] for axis in chosen)
        if key not in seen:
            seen.add(key)
            yield chosen


_MAX_PERMUTED_AXES = 3
"""Up to how many axes `_axis_orders` lists all orders."""


def _axis_orders(
    axes: AxisNumbers, labels: Sequence[object], target: AxisNumbers
) -> Iterator[AxisNumbers]:
    """Ordered choices of axes to split a dimension: all of them where there are few axes.

    Where there are many, only single axes, and the leading axes of `target`.
    """
    kinds = {labels[axis] for axis in axes}
    longest = len(axes) if len(axes) <= _MAX_PERMUTED_AXES or len(kinds) == 1 else 1
    seen = set()
    for count in range(1, longest + 1):
        # Axes of one label are interchangeable: only their number matters.
        orders = [axes[:count]] if len(kinds) == 1 else permutations(axes, count)
        for order in orders:
            key = tuple(labels[axis] for axis in order)
            if key not in seen:
                seen.add(key)
                yield order
    leading = next((at for at, axis in enumerate(target) if axis not in axes), len(target))
    if longest < leading:
        yield target[:leading]
