"""The search over plans: from those of the guide by what makes the best one better, then by all.

Moves that make the best plan better are made, one after the other. Then each class of groups is
split along each axis, alone. These splits are tried together, in the order of how much each
brought. Then every move is tried on the best plan, then on the next best, and so on, in turns with
plans that need more memory than there is. The search ends when every plan that moves lead to is
evaluated, and then the best one is proven to be the best; or when its time is over, or the user
stops it. The order is fixed: a search that comes to its end finds the same plan each time, and so
does one for a number of plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import cycle
from typing import Any

from shard_dialect.analysis.program_costs import Costs
from shard_dialect.model import Grid
from shard_dialect.processes.to_parent import Count
from shard_dialect.search.budget import Budget
from shard_dialect.search.decisions import Dimensions
from shard_dialect.search.evaluate import Evaluator, Score
from shard_dialect.search.guide import Guide
from shard_dialect.search.plan import Move, Plan, group_splits, moves, tensor_splits

PROVEN = 1e-3
"""Less than this part of the costs is no gap: it is what solvers leave open."""
_Entry = tuple[Score, int, Plan]


@dataclass(frozen=True)
class Found:
    """The best plan that was found."""

    plan: Plan
    costs: Costs
    score: Score
    evaluated: int
    """The number of plans that were tried, on all grids."""
    is_exhausted: bool
    """Whether these were all annotations of arguments and results."""
    bound: float | None
    """A lower bound on the objective of all plans; `None` if none is known."""
    before: Costs | None = None
    """The costs of the program as it is; `None` if it cannot be partitioned."""

    @property
    def gap(self) -> float | None:
        """The part of the costs by which another plan may be better, at the most."""
        if self.bound is None or self.score.excess:
            return None
        if self.bound * (1 - PROVEN) > self.score.objective:
            return None  # the passes found what the model does not have
        return max(0.0, 1 - self.bound / self.score.objective) if self.score.objective else 0.0

    @property
    def is_proven(self) -> bool:
        """Whether no plan is better: all were evaluated, or the bound is met."""
        return self.is_exhausted or (self.gap is not None and self.gap < PROVEN)


@dataclass
class Search:
    """A search over the plans of one function."""

    evaluator: Evaluator
    dimensions: Dimensions
    grid: Grid
    free: frozenset[int]
    """The boundary tensors that have no annotation of the user's."""
    count: Count
    guide: Guide | None = None
    budget: Budget = field(default_factory=Budget)
    """That of the present part of the search."""
    is_exhausted: bool = False
    """Whether all plans that moves lead to were tried."""
    _known: dict[Plan, Score | None] = field(default_factory=dict)
    _costs: dict[Plan, Costs | None] = field(default_factory=dict)
    _waiting: tuple[list[_Entry], list[_Entry]] = field(default_factory=lambda: ([], []))
    """Plans that fit the memory, and those that do not, from which no moves were tried yet."""
    _best: tuple[Score, Plan, Costs] | None = None
    bound: float | None = None
    """A lower bound on the objective of all plans; `None` if none is known."""

    def begin(self, budget: Budget, *, is_first: bool) -> None:
        """Try the program as it is, so that the result is never worse, and the guide's plans.

        The first of several searches also splits the classes of groups that split most ops along
        all axes, each alone, as data parallelism does: on all grids this is the same.
        """
        with self._until_over(budget):
            self._score(Plan())
            if self.guide is None:
                return
            if is_first:
                self._split_alone()
            for plan in self.guide.plans(self._costs, self.budget.part(_GUIDED)):
                self._score(plan)
            if self.budget.plans is None and not callable(self.evaluator.objective):
                # With a number of plans the machine's speed would decide how far it goes.
                self.bound = self.guide.bound(self.budget.part(_BOUNDING))

    def try_all(self, plans: Sequence[Plan], budget: Budget) -> None:
        """Try these plans."""
        with self._until_over(budget):
            for plan in plans:
                self._score(plan)

    def improve(self, budget: Budget) -> None:
        """Try plans that are near to the best one, then all."""
        with self._until_over(budget):
            if self.guide is not None and self._best is not None:
                self._score(self.guide.pinned(self._best[1]))
                self._simplify(self._best[1])
            if self._is_bound_met():
                return
            if self.guide is not None:
                self._ascend()
                self._ascend_freely()
            self._combine()
            self._explore()
            self.is_exhausted = True

    @property
    def found(self) -> Found | None:
        """The best plan; `None` if none can be partitioned."""
        if self._best is None:
            return None
        score, plan, costs = self._best
        before = self._costs[Plan()]
        return Found(plan, costs, score, len(self._known), self.is_exhausted, self.bound, before)

    @property
    def rank(self) -> tuple[bool, Score | None]:
        """Less for a search with a better plan."""
        return self._best is None, self._best and self._best[0]

    @contextmanager
    def _until_over(self, budget: Budget) -> Iterator[None]:
        """Let a part of the search end with its budget."""
        self.budget = budget
        with suppress(_OverError):
            yield

    def _is_bound_met(self) -> bool:
        """Whether no plan can be better than the best one so far."""
        if self._best is None or self.bound is None or self._best[0].excess:
            return False
        objective = self._best[0].objective
        return objective * (1 - PROVEN) <= self.bound <= objective * (1 + PROVEN)

    def _split_alone(self) -> None:
        """Split each of the classes of groups that split most ops along all axes."""
        ranked = sorted(self.dimensions.groups, key=lambda each: each.uses, reverse=True)
        for group in ranked[:_ALONE]:
            plan = Plan()
            only = replace(self.dimensions, groups=(group,))
            for move in group_splits(only, self.grid, self.free):
                plan = move.apply(plan, self.dimensions, self.grid) or plan
            self._score(plan)

    def _ascend(self) -> None:
        """Make moves that make the best plan better, until none does."""
        steps = moves(self.dimensions, self.grid, self.free)
        before = None
        while self._best is not None and self._best[1] != before:
            before = self._best[1]
            self._descend(before, steps)

    def _ascend_freely(self) -> None:
        """The same from the best plan that leaves the loops of products to the passes.

        Where a plan has them, a dimension that is split otherwise does not lead to others.
        """
        if self._best is None or not self._best[1].loops:
            return
        steps, before = moves(self.dimensions, self.grid, self.free), None
        free = [(each, plan) for plan, each in self._known.items() if each and not plan.loops]
        plan = min(free, key=lambda each: each[0])[1] if free else None
        while plan is not None and plan != before:
            before, plan = plan, self._descend(plan, steps)

    def _combine(self) -> None:
        """Combine the moves that are good alone: classes of groups, then classes of tensors.

        Where there is time, the best at each step; else in the order of what each brings alone.
        """
        start = self._score(Plan())
        if start is None:
            return
        groups = group_splits(self.dimensions, self.grid, self.free)
        tensors = tensor_splits(self.dimensions, self.grid, self.free)
        begin, known = self.budget.spent, len(self._known)
        self._simplify(self._descend(Plan(), self._by_worth(start, groups)))
        if not start.excess:
            return
        of_each = (self.budget.spent - begin) / max(len(self._known) - known, 1)
        rounds = min(self.budget.left / (of_each + 1e-9), self.budget.plans_left)
        if rounds > _ROUNDS * len(groups + tensors):
            self._climb([*groups, *tensors], lambda before, after: after)
        elif rounds > _ROUNDS * len(groups):
            plan = self._climb(groups, lambda before, after: -after.worth_after(before))
            self._descend(plan, tensors)

    def _climb(self, steps: Sequence[Move], key: Callable[[Score, Score], Any]) -> Plan:
        """The plan after the best move at each step, as long as the excess of memory falls.

        The best move has the least `key` of the scores before and after it.
        """
        plan, score = Plan(), self._score(Plan())
        while score is not None and score.excess:
            found = []
            for number, move in enumerate(steps):
                after = move.apply(plan, self.dimensions, self.grid)
                other = None if after is None else self._score(after)
                if after is not None and other is not None and other.excess < score.excess:
                    found.append((key(score, other), number, after, other))
            if not found:
                break
            *_, plan, score = min(found, key=lambda each: each[:2])
        return plan

    def _by_worth(self, start: Score, steps: Sequence[Move]) -> list[Move]:
        """The moves, by how much each brings alone."""
        alone = []
        for number, move in enumerate(steps):
            after = move.apply(Plan(), self.dimensions, self.grid)
            found = None if after is None else self._score(after)
            if found is not None:
                alone.append((-found.worth_after(start), number, move))
        return [move for *_, move in sorted(alone, key=lambda each: each[:2])]

    def _descend(self, plan: Plan, steps: Sequence[Move]) -> Plan:
        """The plan after those of the moves that each make it better."""
        score = self._score(plan)
        for move in steps:
            after = move.apply(plan, self.dimensions, self.grid)
            found = None if after is None else self._score(after)
            if after is not None and found is not None and score is not None and found < score:
                plan, score = after, found
        return plan

    def _simplify(self, plan: Plan) -> None:
        """Leave out the annotations of one class after the other, if that is no worse."""
        score = self._score(plan)
        inner = self.guide.inner_classes(plan) if self.guide else ()
        changes: list[Callable[[Plan], Plan]] = [
            Plan.without_loops,
            *(partial(Plan.without_inner, values=each) for each in inner),
            *(partial(Plan.without, tensors=each) for each in self.dimensions.tensors),
        ]
        for change in changes:
            after = change(plan)
            found = self._score(after) if after != plan else None
            if found is not None and score is not None and found <= score:
                plan, score = after, found

    def _explore(self) -> None:
        """Try all moves on plan after plan, until there is no other."""
        steps = moves(self.dimensions, self.grid, self.free)
        self._expand(Plan(), steps)
        turns = cycle(self._waiting)
        while any(self._waiting):
            waiting = next(turns)  # plans that do not fit may lead to ones better than all that do
            if waiting:
                self._expand(heappop(waiting)[-1], steps)

    def _expand(self, plan: Plan, steps: Sequence[Move]) -> None:
        """Evaluate all plans that are one move away."""
        self._score(plan)
        for move in steps:
            after = move.apply(plan, self.dimensions, self.grid)
            if after is not None:
                self._score(after)

    def _score(self, plan: Plan) -> Score | None:
        """The score of a plan; `None` if it cannot be partitioned."""
        if plan in self._known:
            return self._known[plan]
        if self._known and self.budget.is_over:
            raise _OverError
        self._tell()
        self.budget.count()
        costs = self._costs[plan] = self.evaluator.costs(plan)
        if costs is None:
            self._known[plan] = None
            return None
        score = self._known[plan] = self.evaluator.score(plan, costs)
        heappush(self._waiting[score.excess > 0], (score, len(self._known), plan))
        if self._best is None or score < self._best[0]:
            self._best = score, plan, costs
        return score

    def _tell(self) -> None:
        """Show how many plans were tried, the best one, and how much of the time is over."""
        best = f", the best has {self._best[2]}" if self._best else ""
        whole = self.budget.outermost
        self.count.done(whole.spent, f"{whole.tried} plans tried{best}")


_ALONE = 4
"""The number of classes of groups that are split alone at first."""
_GUIDED = 0.8
"""The share of the time of a search's begin that the guide has for plans."""
_BOUNDING = 0.5
"""The share of what is left that it has for a bound."""
_ROUNDS = 4
"""The best move at each step is looked for where there is time for this many steps."""


class _OverError(Exception):
    """What the search was given is spent: its time, or its number of plans."""
