"""The cheapest steps from one layout of a tensor to another.

Costs are compared in this order: bytes moved, number of steps, peak memory.

`cheapest` finds the best path without a permutation by A*. The lower bound on the bytes still to be
moved is the largest part of a target shard that any device lacks.

`cheapest_with_permute` finds the best path with one permutation. A permutation leads from a layout
to any layout with as many shards in each dimension, so only these numbers matter for the paths to
it and from it. One search runs forward from the source, one backward from the target. Layouts that
differ only in axes of equal size count as one.

`fastest` finds the best path by prices in time. A step's time depends on where the devices of a
group are in the network, so no two axes are alike here, and no axis may be left out because it
stays. One search runs forward from the source, one backward from the target; both prune paths that
take longer than the known plan. The forward one finds the fastest path without a permutation. A
permutation leads from a layout of the one to a layout of the other that has as many shards in each
dimension.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from itertools import count as numbers
from math import prod
from operator import sub

from shard_dialect.collectives import Step
from shard_dialect.planner.layouts.layout import (
    AxisNumbers,
    Layout,
    Move,
    Problem,
    backward,
    forward,
)

Cost = tuple[int, int, int]
"""Elements moved in the problem's unit, number of steps, elements held at the peak."""


class SearchTooLong(Exception):
    """A search visited more layouts than its limit."""


@dataclass(frozen=True, slots=True)
class Path:
    """Steps, and their cost."""

    steps: tuple[Step, ...]
    cost: Cost


def missing(problem: Problem) -> int:
    """A lower bound on the cost of a plan without permutations, in the problem's unit."""
    return _Missing(problem).after(problem.source)


def cheapest(problem: Problem, limit: int) -> Path:
    """The best path without a permutation. Raises `SearchTooLong` past `limit` layouts."""
    labels = _labels(problem)
    bound = _Missing(problem)
    start, end = problem.source, problem.target
    best: dict[Layout, Cost] = {start: (0, 0, 0)}
    came_from: dict[Layout, tuple[Layout, Step]] = {}
    tie = numbers()
    queue = [(bound.after(start), 0, 0, next(tie), start, best[start])]
    visited = 0
    while queue:
        *_, layout, cost = heappop(queue)
        # An entry that a cheaper path has replaced: the heap cannot lower the key of an entry.
        if cost != best[layout]:
            continue
        if layout == end:
            return Path(_trace(came_from, start, end), cost)
        visited += 1
        if visited > limit:
            raise SearchTooLong
        for step, after, new_cost in _with_costs(
            problem, layout, cost, forward(problem, layout, labels)
        ):
            if after not in best or new_cost < best[after]:
                best[after], came_from[after] = new_cost, (layout, step)
                estimate = new_cost[0] + bound.after(after)
                queued = (
                    estimate,
                    # A lower bound on the number of steps, too: one more, if this is not the
                    # target.
                    new_cost[1] + (after != end),
                    new_cost[2],
                    next(tie),
                    after,
                    new_cost,
                )
                heappush(queue, queued)
    raise AssertionError(f"no steps lead from {start} to {end}")


@dataclass(frozen=True, slots=True)
class SplitPath:
    """A path `before` a permutation from `source` to `target`, and a path `after` it."""

    before: Path
    source: Layout
    target: Layout
    after: Path
    cost: Cost


def cheapest_with_permute(
    first: Problem, second: Problem, most: int | None, limit: int
) -> SplitPath | None:
    """The best path with one permutation, from `first`'s source to `second`'s target.

    `first` and `second` are one problem, or the same tensor on two grids of the same size. `None`
    if every such path moves more than `most`. Raises `SearchTooLong` past `limit` layouts.
    """
    # A device receives all that it holds after the permutation, and then what it holds more at the
    # end: together at least what it holds at any layout from there on. Paths are cut off by it.
    needed = second.elements(second.target) * second.unit
    if most is not None and needed > most:
        return None
    from_source = reachable(
        first, first.source, forward, most, limit, _Shards(first), lambda _: needed
    )
    from_target = reachable(
        second,
        second.target,
        backward,
        most,
        limit,
        _Shards(second),
        lambda layout: second.elements(layout) * second.unit,
        is_backward=True,
    )
    best: SplitPath | None = None
    for shards, (layout, before) in from_source.items():
        if shards not in from_target:
            continue
        other, after = from_target[shards]
        elements = first.elements(layout)
        cost = (
            before.cost[0] + after.cost[0] + elements * first.unit,
            before.cost[1] + after.cost[1] + 1,
            max(before.cost[2], after.cost[2], 2 * elements),
        )
        if (most is None or cost[0] <= most) and (best is None or cost < best.cost):
            best = SplitPath(before, layout, other, after, cost)
    return best


def cheapest_without_move(
    first: Problem,
    second: Problem,
    held_first: Callable[[Layout], object],
    held_second: Callable[[Layout], object],
    limit: int,
) -> SplitPath | None:
    """The best path between two grids of the same devices that changes grids without moving data.

    It changes grids at two layouts for which `held_first` and `held_second` are equal: each device
    holds the same shard. `None` if there are none. Raises `SearchTooLong` past `limit` layouts.
    """
    from_source = reachable(first, first.source, forward, None, limit, Layouts(first))
    from_target = reachable(
        second, second.target, backward, None, limit, Layouts(second), is_backward=True
    )
    ends = {held_second(layout): (layout, after) for layout, after in from_target.values()}
    best: SplitPath | None = None
    for layout, before in from_source.values():
        match = ends.get(held_first(layout))
        if match is None:
            continue
        other, after = match
        moved, steps = before.cost[0] + after.cost[0], before.cost[1] + after.cost[1]
        cost = (moved, steps, max(before.cost[2], after.cost[2]))
        if best is None or cost < best.cost:
            best = SplitPath(before, layout, other, after, cost)
    return best


class _Shards:
    """Classes of layouts for a search that ends in a permutation.

    Layouts of one `key` differ only in axes of equal size. Layouts of one `end` have as many shards
    in each dimension.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.labels: Sequence[object] = problem.sizes

    def key(self, layout: Layout) -> object:
        return _axis_size_key(self.problem, layout)

    def end(self, layout: Layout) -> object:
        count = self.problem.count
        return (*map(count, layout[0]), count(layout[1]))


class Layouts(_Shards):
    """Classes of layouts for a search without a permutation: each layout is its own."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.labels = range(len(problem.sizes))

    def key(self, layout: Layout) -> object:
        """The layout itself."""
        return layout

    end = key


_Moves = Callable[[Problem, Layout, Sequence[object]], Iterator[Move]]


def reachable(
    problem: Problem,
    start: Layout,
    moves: _Moves,
    most: int | None,
    limit: int,
    classes: _Shards,
    besides: Callable[[Layout], int] = lambda _: 0,
    *,
    is_backward: bool = False,
) -> dict[object, tuple[Layout, Path]]:
    """For each `end`, the cheapest layout that steps lead to from `start`, and the path.

    `moves` has the steps from a layout, or, if it `is_backward`, those to it: then the paths lead
    from the layout to `start`. Paths that cost more than `most` are left out, with what other steps
    cost at least `besides` those to or from a layout.
    """
    reached: dict[object, tuple[Layout, Path]] = {}
    done = set()
    best = {classes.key(start): (0, 0, 0)}
    tie = numbers()
    queue: list[tuple[Cost, int, Layout, tuple[Step, ...]]] = [((0, 0, 0), next(tie), start, ())]
    while queue:
        cost, _, layout, steps = heappop(queue)
        key = classes.key(layout)
        if key in done:
            continue
        done.add(key)
        if len(done) > limit:
            raise SearchTooLong
        end = classes.end(layout)
        if end not in reached:
            path = Path(steps[::-1] if is_backward else steps, cost)
            reached[end] = (layout, path)
        possible = moves(problem, layout, classes.labels)
        for step, after, new in _with_costs(problem, layout, cost, possible):
            if most is not None and new[0] + besides(after) > most:
                continue
            key = classes.key(after)
            if key not in done and (key not in best or new < best[key]):
                best[key] = new
                heappush(queue, (new, next(tie), after, (*steps, step)))
    return reached


def _with_costs(
    problem: Problem, layout: Layout, cost: Cost, moves: Iterator[Move]
) -> Iterator[tuple[Step, Layout, Cost]]:
    held = problem.elements(layout)
    for step, after, more in moves:
        peak = max(cost[2], held + problem.elements(after))
        yield step, after, (cost[0] + more, cost[1] + 1, peak)


def _axis_size_key(problem: Problem, layout: Layout) -> object:
    sizes = problem.sizes
    split = tuple(tuple(sizes[axis] for axis in axes) for axes in layout[0])
    return split, tuple(sorted(sizes[axis] for axis in layout[1]))


def _labels(problem: Problem) -> list[object]:
    """A label for each axis; axes of equal size that neither source nor target uses share one."""
    ends = (problem.source, problem.target)
    used = {axis for split, partial in ends for axes in (*split, partial) for axis in axes}
    return [axis if axis in used else -size for axis, size in enumerate(problem.sizes)]


def _trace(
    came_from: dict[Layout, tuple[Layout, Step]], start: Layout, end: Layout
) -> tuple[Step, ...]:
    steps: list[Step] = []
    while end != start:
        end, step = came_from[end]
        steps.append(step)
    return tuple(reversed(steps))


_WITNESSES = 64
"""The most devices that the lower bound looks at."""


def _first_coordinates(sizes: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """The coordinates of the first `count` devices of a grid of these sizes."""
    for number in range(min(count, prod(sizes))):
        coordinates = []
        for size in reversed(sizes):
            number, at = divmod(number, size)
            coordinates.append(at)
        yield tuple(reversed(coordinates))


class _Missing:
    """A lower bound on the cost that is left to the target, without permutations."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        # A mask leaves a shard to the first device along an axis only, so only that one counts.
        sizes = [1 if axis in problem.target[1] else n for axis, n in enumerate(problem.sizes)]
        # The most that some of the devices lack is a lower bound as well. Of the first devices
        # every k-th is taken, since neighbours differ along the minor axes only.
        self.devices = list(_first_coordinates(sizes, 4 * _WITNESSES))
        if len(self.devices) > _WITNESSES:
            self.devices = self.devices[:: len(self.devices) // _WITNESSES + 1]
        self.overlaps = cache(self._overlaps)
        self.targets = [self._ends(dim, axes) for dim, axes in enumerate(problem.target[0])]
        lengths = [[high - low for low, high in ends] for ends in self.targets]
        self.needs = [prod(each) for each in zip(*lengths, strict=True)]

    def _ends(self, dim: int, axes: AxisNumbers) -> list[tuple[int, int]]:
        """Where each device's shard of `dim`, split along `axes`, begins and ends."""
        sizes, size = self.problem.sizes, self.problem.shape[dim]
        shard = self.problem.shard(dim, self.problem.count(axes))
        ends = []
        for coordinates in self.devices:
            index = 0
            for axis in axes:
                index = index * sizes[axis] + coordinates[axis]
            ends.append((min(index * shard, size), min((index + 1) * shard, size)))
        return ends

    def _overlaps(self, dim: int, axes: AxisNumbers) -> list[int]:
        """How much of its target shard of `dim` each device has, where `axes` split it."""
        pairs = zip(self.targets[dim], self._ends(dim, axes), strict=True)
        return [max(0, min(high, end) - max(low, begin)) for (low, high), (begin, end) in pairs]

    def after(self, layout: Layout) -> int:
        problem = self.problem
        pending = [axis for axis in layout[1] if axis not in problem.target[1]]
        if pending:
            return self._to_combine(layout, pending)
        if layout[0] == problem.target[0]:
            return 0
        overlaps = [self.overlaps(dim, axes) for dim, axes in enumerate(layout[0])]
        held = map(prod, zip(*overlaps, strict=True))
        return max(map(sub, self.needs, held), default=0) * problem.unit

    def _to_combine(self, layout: Layout, pending: AxisNumbers | list[int]) -> int:
        """The bound while `pending` axes must still be reduced, averaged over the devices.

        For each element, all addends but one are sent once, and the sum is sent to all devices that
        need it but one. In every plan some device moves at least the average.
        """
        problem = self.problem
        addends = problem.count(pending)
        partial_in_target = problem.count([axis for axis in layout[1] if axis in problem.target[1]])
        copies = problem.unit // prod(map(problem.count, (*problem.target[0], problem.target[1])))
        sent = addends - 1 + (copies - 1 if partial_in_target == 1 else 0)
        return prod(problem.shape) * sent


StepPrice = Callable[[Step | Layout, Layout], int]
"""The price of a step from a layout; a layout as a step stands for the permutation to it."""


@dataclass(frozen=True)
class TimedProblem:
    """A search problem with all axes, and the prices of its steps."""

    problem: Problem
    price: StepPrice

    def forward(self, problem: Problem, layout: Layout, labels: Sequence[object]) -> Iterator[Move]:
        """The steps from a layout."""
        for step, after, _ in forward(problem, layout, labels):
            yield step, after, self.price(step, layout)

    def backward(
        self, problem: Problem, layout: Layout, labels: Sequence[object]
    ) -> Iterator[Move]:
        """The steps that lead to a layout."""
        for step, before, _ in backward(problem, layout, labels):
            yield step, before, self.price(step, before)


@dataclass(frozen=True, slots=True)
class TimedPath:
    """Steps, a layout standing for the permutation to it, and their cost."""

    steps: tuple[Step | Layout, ...]
    cost: Cost


def fastest(timed: TimedProblem, most: int, limit: int) -> TimedPath:
    """The best path that takes at most `most`, which some path does, with one permutation or none.

    Compares time, then the number of steps, then peak memory. Raises `SearchTooLong` past `limit`
    layouts.
    """
    problem = timed.problem
    classes = Layouts(problem)
    from_source = reachable(problem, problem.source, timed.forward, most, limit, classes)
    best: TimedPath | None = None
    if problem.target in from_source:
        _, path = from_source[problem.target]
        best, most = TimedPath(path.steps, path.cost), path.cost[0]
    from_target = reachable(
        problem, problem.target, timed.backward, most, limit, classes, is_backward=True
    )
    by_counts: dict[object, list[tuple[Layout, Path]]] = defaultdict(list)
    for layout, after in from_target.values():
        by_counts[_counts(problem, layout)].append((layout, after))
    for layout, before in from_source.values():
        for other, after in by_counts[_counts(problem, layout)]:
            if before.cost[0] + after.cost[0] > most or layout == other:
                continue
            found = _permuted(timed, layout, before, other, after)
            if best is None or found.cost < best.cost:
                best, most = found, min(most, found.cost[0])
    assert best is not None, "the plan that is known takes no longer"
    return best


def _counts(problem: Problem, layout: Layout) -> object:
    return (*map(problem.count, layout[0]), problem.count(layout[1]))


def _permuted(
    timed: TimedProblem, layout: Layout, before: Path, other: Layout, after: Path
) -> TimedPath:
    cost = (
        before.cost[0] + timed.price(other, layout) + after.cost[0],
        before.cost[1] + 1 + after.cost[1],
        max(before.cost[2], 2 * timed.problem.elements(layout), after.cost[2]),
    )
    return TimedPath((*before.steps, other, *after.steps), cost)
