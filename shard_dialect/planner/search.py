"""The cheapest steps from one layout of a tensor to another.

Costs are compared in this order: bytes moved, number of steps, memory at the step that needs most.

`cheapest` finds the best plan without a permutation by A*: what the worst placed device still
misses is a bound from below. `cheapest_with_permute` finds the best plan with one permutation. A
permutation leads to any layout in as many shards, so what matters of the way to it, and of the way
from it, is only how many shards each dimension is in. Both ways are searched from their ends, one
layout standing for all that differ in axes of equal sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from itertools import count as numbers
from math import prod

from shard_dialect.model.collectives import Step
from shard_dialect.planner.layout import Layout, Problem, Run
from shard_dialect.planner.moves import Move, backward, forward

Cost = tuple[int, int, int]
"""Bytes in the problem's unit, steps, elements at the peak."""


class SearchTooLong(Exception):
    """A search looked at more layouts than it may."""


@dataclass(frozen=True, slots=True)
class Path:
    """Steps, and what they cost."""

    steps: tuple[Step, ...]
    cost: Cost


def missing(problem: Problem) -> int:
    """What every plan without a permutation moves at least."""
    return _Missing(problem).after(problem.source)


def cheapest(problem: Problem, limit: int) -> Path:
    """The best way without a permutation. Raises `SearchTooLong` past `limit` layouts."""
    labels = _labels(problem)
    bound = _Missing(problem)
    start, end = problem.source, problem.target
    best: dict[Layout, Cost] = {start: (0, 0, 0)}
    came: dict[Layout, tuple[Layout, Step]] = {}
    tie = numbers()
    queue = [(bound.after(start), 0, 0, next(tie), start, best[start])]
    looked_at = 0
    while queue:
        *_, layout, cost = heappop(queue)
        if cost != best[layout]:
            continue
        if layout == end:
            return Path(_trace(came, start, end), cost)
        looked_at += 1
        if looked_at > limit:
            raise SearchTooLong
        for step, after, found in _weighed(problem, layout, cost, forward(problem, layout, labels)):
            if after not in best or found < best[after]:
                best[after], came[after] = found, (layout, step)
                least = found[0] + bound.after(after)
                queued = (least, found[1] + (after != end), found[2], next(tie), after, found)
                heappush(queue, queued)
    raise AssertionError(f"no steps lead from {start} to {end}")


@dataclass(frozen=True, slots=True)
class Meeting:
    """A way to a layout, a permutation to another, and a way from that."""

    to: Path
    source: Layout
    target: Layout
    away: Path
    cost: Cost


def cheapest_with_permute(
    here: Problem, there: Problem, most: int | None, limit: int
) -> Meeting | None:
    """The best way with one permutation, from `here`'s source to `there`'s target.

    The two are one problem, or the same tensor on two grids of as many devices. `None` where
    `most`, a cost, is less. Raises `SearchTooLong` past `limit` layouts.
    """
    smallest = prod(here.shard(dim, here.unit) for dim in range(len(here.shape))) * here.unit
    ahead = _reached(here, here.source, forward, most, smallest, limit, _Shards(here))
    back = _reached(there, there.target, backward, most, smallest, limit, _Shards(there))
    best: Meeting | None = None
    for shards, (layout, to) in ahead.items():
        if shards not in back:
            continue
        other, away = back[shards]
        elements = here.elements(layout)
        cost = (
            to.cost[0] + away.cost[0] + elements * here.unit,
            to.cost[1] + away.cost[1] + 1,
            max(to.cost[2], away.cost[2], 2 * elements),
        )
        if (most is None or cost[0] <= most) and (best is None or cost < best.cost):
            best = Meeting(to, layout, other, away, cost)
    return best


def cheapest_without_move(
    here: Problem,
    there: Problem,
    held_here: Callable[[Layout], object],
    held_there: Callable[[Layout], object],
    limit: int,
) -> Meeting | None:
    """The best way over two layouts, on two grids of the same devices, that are one.

    They are where what the devices hold is equal. Raises `SearchTooLong` past `limit` layouts.
    """
    ahead = _reached(here, here.source, forward, None, 0, limit, _Layouts(here))
    back = _reached(there, there.target, backward, None, 0, limit, _Layouts(there))
    ends = {held_there(layout): (layout, away) for layout, away in back.values()}
    best: Meeting | None = None
    for layout, to in ahead.values():
        found = ends.get(held_here(layout))
        if found is None:
            continue
        other, away = found
        moved, steps = to.cost[0] + away.cost[0], to.cost[1] + away.cost[1]
        cost = (moved, steps, max(to.cost[2], away.cost[2]))
        if best is None or cost < best.cost:
            best = Meeting(to, layout, other, away, cost)
    return best


class _Shards:
    """What matters of layouts for a permutation: how many shards; axes of one size are alike."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.labels: Sequence[object] = problem.sizes

    def key(self, layout: Layout) -> object:
        return _alike(self.problem, layout)

    def end(self, layout: Layout) -> object:
        count = self.problem.count
        return (*map(count, layout[0]), count(layout[1]))


class _Layouts(_Shards):
    """Everything matters."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.labels = range(len(problem.sizes))

    def key(self, layout: Layout) -> object:
        return layout

    end = key


_Moves = Callable[[Problem, Layout, Sequence[object]], Iterator[Move]]


def _reached(
    problem: Problem,
    start: Layout,
    moves: _Moves,
    most: int | None,
    smallest: int,
    limit: int,
    told_apart: _Shards,
) -> dict[object, tuple[Layout, Path]]:
    """For each `end` the best layout that steps from (or to) `start` have."""
    found: dict[object, tuple[Layout, Path]] = {}
    done = set()
    best = {told_apart.key(start): (0, 0, 0)}
    tie = numbers()
    queue: list[tuple[Cost, int, Layout, tuple[Step, ...]]] = [((0, 0, 0), next(tie), start, ())]
    while queue:
        cost, _, layout, steps = heappop(queue)
        key = told_apart.key(layout)
        if key in done:
            continue
        done.add(key)
        if len(done) > limit:
            raise SearchTooLong
        end = told_apart.end(layout)
        if end not in found:
            way = Path(steps if moves is forward else steps[::-1], cost)
            found[end] = (layout, way)
        possible = moves(problem, layout, told_apart.labels)
        for step, after, new in _weighed(problem, layout, cost, possible):
            if most is not None and new[0] + smallest > most:
                continue
            key = told_apart.key(after)
            if key not in done and (key not in best or new < best[key]):
                best[key] = new
                heappush(queue, (new, next(tie), after, (*steps, step)))
    return found


def _weighed(
    problem: Problem, layout: Layout, cost: Cost, moves: Iterator[Move]
) -> Iterator[tuple[Step, Layout, Cost]]:
    held = problem.elements(layout)
    for step, after, more in moves:
        peak = max(cost[2], held + problem.elements(after))
        yield step, after, (cost[0] + more, cost[1] + 1, peak)


def _alike(problem: Problem, layout: Layout) -> object:
    sizes = problem.sizes
    split = tuple(tuple(sizes[axis] for axis in run) for run in layout[0])
    return split, tuple(sorted(sizes[axis] for axis in layout[1]))


def _labels(problem: Problem) -> list[object]:
    """Axes that neither end uses are alike where their sizes are."""
    ends = (problem.source, problem.target)
    used = {axis for split, partial in ends for run in (*split, partial) for axis in run}
    return [axis if axis in used else -size for axis, size in enumerate(problem.sizes)]


def _trace(came: dict[Layout, tuple[Layout, Step]], start: Layout, end: Layout) -> tuple[Step, ...]:
    steps: list[Step] = []
    while end != start:
        end, step = came[end]
        steps.append(step)
    return tuple(reversed(steps))


_WITNESSES = 64


def _first_places(sizes: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """The first `count` places of a grid of these sizes, the last axis fastest."""
    for number in range(min(count, prod(sizes))):
        place = []
        for size in reversed(sizes):
            number, at = divmod(number, size)
            place.append(at)
        yield tuple(reversed(place))


class _Missing:
    """A bound from below of what must still be moved to the target, without permutations."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        # A mask would take from the others what they need.
        sizes = [1 if axis in problem.target[1] else n for axis, n in enumerate(problem.sizes)]
        self.devices = list(_first_places(sizes, 4 * _WITNESSES))
        if len(self.devices) > _WITNESSES:
            self.devices = self.devices[:: len(self.devices) // _WITNESSES + 1]
        self.ends = cache(self._ends)
        self.needs = [self.ends(dim, run) for dim, run in enumerate(problem.target[0])]

    def _ends(self, dim: int, run: Run) -> list[tuple[int, int]]:
        """For each device where its shard of `dim`, cut by `run`, begins and ends."""
        sizes, size = self.problem.sizes, self.problem.shape[dim]
        shard = self.problem.shard(dim, self.problem.count(run))
        found = []
        for place in self.devices:
            index = 0
            for axis in run:
                index = index * sizes[axis] + place[axis]
            found.append((min(index * shard, size), min((index + 1) * shard, size)))
        return found

    def after(self, layout: Layout) -> int:
        problem = self.problem
        pending = [axis for axis in layout[1] if axis not in problem.target[1]]
        if pending:
            return self._to_combine(layout, pending)
        if layout[0] == problem.target[0]:
            return 0
        held = [self.ends(dim, run) for dim, run in enumerate(layout[0])]
        most = 0
        for at in range(len(self.devices)):
            need, have = 1, 1
            for wanted, there in zip(self.needs, held, strict=True):
                (low, high), (begin, end) = wanted[at], there[at]
                need *= high - low
                have *= max(0, min(high, end) - max(low, begin))
            most = max(most, need - have)
        return most * problem.unit

    def _to_combine(self, layout: Layout, pending: Run | list[int]) -> int:
        """Each addend but one of an element is sent once, and the sum to all but one who want it.

        On the average of all devices: no device moves less than that in every plan.
        """
        problem = self.problem
        addends = problem.count(pending)
        stay = problem.count([axis for axis in layout[1] if axis in problem.target[1]])
        copies = problem.unit // prod(map(problem.count, (*problem.target[0], problem.target[1])))
        sent = addends - 1 + (copies - 1 if stay == 1 else 0)
        return prod(problem.shape) * sent
