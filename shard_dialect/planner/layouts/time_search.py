"""The fastest steps from one layout of a tensor to another, by prices in time.

A step's time depends on where the devices of a group are in the network, so no two axes are alike
here, and no axis may be left out because it stays. One search runs forward from the source, one
backward from the target; both leave out what takes longer than a plan that is known. The forward
one finds the fastest path without a permutation. A permutation leads from a layout of the one to a
layout of the other that has as many shards in each dimension.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shard_dialect.model.collectives import Step
from shard_dialect.planner.layouts.layout import Layout, Problem
from shard_dialect.planner.layouts.moves import Move, backward, forward
from shard_dialect.planner.layouts.search import Cost, Layouts, Path, reachable

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
    from_source = reachable(problem, problem.source, timed.forward, most, 0, limit, classes)
    best: TimedPath | None = None
    if problem.target in from_source:
        _, path = from_source[problem.target]
        best, most = TimedPath(path.steps, path.cost), path.cost[0]
    from_target = reachable(
        problem, problem.target, timed.backward, most, 0, limit, classes, is_backward=True
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
