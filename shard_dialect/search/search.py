"""A best-first search: the best plan that is known is left by each move, again and again.

It begins without any split. It ends when every plan that moves lead to is evaluated, and then the
best one is proven to be the best, or when its time is over or the user stops it. The order is
fixed: a search that comes to its end finds the same plan each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from shard_dialect.model import Grid
from shard_dialect.search.dimension_groups import Dimensions
from shard_dialect.search.evaluate import Costs, Evaluator, Score
from shard_dialect.search.plan import Plan, moves, simplifications


@dataclass(frozen=True)
class Found:
    """The best plan that was found."""

    plan: Plan
    costs: Costs
    score: Score
    evaluated: int
    """The number of plans that were evaluated."""
    is_proven: bool
    """Whether these were all, so that no plan is better."""


@dataclass
class Search:
    """A search over the plans of one function; `tell` is called with each better plan."""

    evaluator: Evaluator
    dimensions: Dimensions
    grid: Grid
    free: frozenset[int]
    """The boundary tensors that have no annotation of the user's."""
    seconds: float
    tell: Callable[[Plan, Costs, int], None] = lambda *_: None
    _known: dict[Plan, Score | None] = field(default_factory=dict)
    _best: tuple[Score, Plan, Costs] | None = None

    def run(self) -> Found | None:
        """The best plan; `None` if none can be partitioned."""
        deadline = time.monotonic() + self.seconds
        is_proven = False
        try:
            is_proven = self._explore(deadline)
            self._simplify()
        except KeyboardInterrupt:
            is_proven = False
        if self._best is None:
            return None
        score, plan, costs = self._best
        return Found(plan, costs, score, len(self._known), is_proven)

    def _explore(self, deadline: float) -> bool:
        """Evaluate plans until there are no others, or no time; tells which."""
        steps = moves(self.dimensions, self.grid, self.free)
        waiting: list[tuple[Score, int, Plan]] = []
        self._visit(Plan(), waiting)
        while waiting:
            *_, plan = heappop(waiting)
            for move in steps:
                if time.monotonic() > deadline and self._best is not None:
                    return False
                after = move.apply(plan, self.dimensions, self.grid)
                if after is not None:
                    self._visit(after, waiting)
        return True

    def _visit(self, plan: Plan, waiting: list[tuple[Score, int, Plan]]) -> None:
        if plan not in self._known:
            score = self._evaluate(plan)
            if score is not None:
                heappush(waiting, (score, len(self._known), plan))

    def _evaluate(self, plan: Plan) -> Score | None:
        if plan in self._known:
            return self._known[plan]
        costs = self.evaluator.costs(plan)
        score = None if costs is None else self.evaluator.score(plan, costs)
        self._known[plan] = score
        if costs is not None and score is not None and (not self._best or score < self._best[0]):
            self._best = score, plan, costs
            self.tell(plan, costs, len(self._known))
        return score

    def _simplify(self) -> None:
        """Drop annotations without which the program costs no more."""
        before = None
        while self._best is not None and self._best[1] != before:
            before = self._best[1]
            for after in simplifications(before, self.dimensions.tensors):
                self._evaluate(after)
