"""Plans from the sharding program: they guide the search, which runs the passes on each.

The sharding program knows the memory only roughly. Where the passes need more than a solution says,
it is solved again for a limit that is lower by as much. The passes choose by bytes, so solutions
for the fewest bytes are tried for each objective.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from shard_dialect.model import Grid
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.search.choices.live_values import LiveValues, live_values
from shard_dialect.search.choices.op_classes import Classes, classes_of
from shard_dialect.search.choices.prices import Prices
from shard_dialect.search.choices.sharding_program import (
    MOST_PAIRS,
    MOST_PAIRS_OF_INTEGERS,
    ShardingProgram,
)
from shard_dialect.search.evaluate import Costs, Objective
from shard_dialect.search.follow_solution import PlanMaker
from shard_dialect.search.plan import Plan
from shard_dialect.search.searched_function import SearchedFunction

_TRIES = 5
"""For how many limits a program is solved."""
_LESS = 0.98
_LOWEST = 0.6
"""The next limit is lower by this factor at the most, as the passes may need less for it."""
_NEAR = 0.05
"""Limits that differ by less than this part are not told apart."""
_PART = 0.3
"""The solutions for one limit may take this part of the guide's time."""
_SOLUTIONS = 3
"""How many of them are tried."""


@dataclass(frozen=True)
class Guide:
    """What leads a search for the shardings of a function."""

    function: SearchedFunction
    simplified: SearchedFunction
    """The function after upstream's simplifications: what the passes need not do is not there."""
    classes: Classes
    grid: Grid
    device_model: DeviceModel
    objective: Objective
    memory_limit: int | None
    free: frozenset[int]
    """The boundary tensors that have no annotation of the user's."""

    @classmethod
    def of(
        cls,
        function: SearchedFunction,
        simplified: SearchedFunction,
        grid: Grid,
        device_model: DeviceModel,
        objective: Objective,
        memory_limit: int | None,
        free: frozenset[int],
    ) -> Guide:
        """The guide for a function, whose module must live as long."""
        classes = classes_of(function.graph, function.free)
        return cls(function, simplified, classes, grid, device_model, objective, memory_limit, free)

    def plans(self, known: Mapping[Plan, Costs | None], seconds: float) -> Iterator[Plan]:
        """The plans to try; `known` has the costs of those that were tried before the next."""
        end = time.monotonic() + seconds
        objectives: tuple[Objective, ...] = (self.objective,)
        if self.objective == "time":
            objectives = ("bytes", "time")
        for objective in objectives:
            yield from self._within_memory(objective, known, end)

    def _within_memory(
        self, objective: Objective, known: Mapping[Plan, Costs | None], end: float
    ) -> Iterator[Plan]:
        """The plans of solutions for lower limits, until some fit; then for limits between."""
        seconds = _PART * (end - time.monotonic())
        limit, fits, too_much = self.memory_limit, 0, self.memory_limit
        for _ in range(_TRIES):
            left = end - time.monotonic()
            if left < 0:
                return
            tried = self._plans_of(self._program(objective, limit), min(left, seconds))
            yield from tried
            peaks = [costs.peak for each in tried if (costs := known.get(each))]
            if self.memory_limit is None or limit is None or too_much is None or not peaks:
                return
            if min(peaks) > self.memory_limit:
                too_much = limit
                lower = limit * max(_LOWEST, self.memory_limit / min(peaks)) * _LESS
            else:
                fits = limit
            if too_much - fits < _NEAR * too_much or fits == self.memory_limit:
                return
            limit = (fits + too_much) // 2 if fits else int(lower)

    def _plans_of(self, program: ShardingProgram, seconds: float) -> list[Plan]:
        """The plans of a program's best solutions, with annotations inside and without."""
        maker = PlanMaker(self.function, program, self.free)
        plans: dict[Plan, None] = {}
        for solution in program.solutions(seconds)[:_SOLUTIONS]:
            plan = maker.plan(solution)
            plans |= dict.fromkeys((plan, plan.with_inner({})))
        return list(plans)

    def bound(self, seconds: float) -> float | None:
        """What no plan of the sharding program costs less than; `None` if that takes too long."""
        function = self.simplified
        classes = classes_of(function.graph, function.free)
        prices = Prices(self.grid, self.device_model, self.objective, at_least=True)
        peaks = live_values(function, classes)
        program = ShardingProgram(classes, prices, self.memory_limit, peaks)
        if program.pairs > MOST_PAIRS:
            return None
        relaxed = program.pairs > MOST_PAIRS_OF_INTEGERS
        solution = program.solve(seconds, relaxed=relaxed)
        return None if solution is None else solution.bound

    def inner_classes(self, plan: Plan) -> Iterator[frozenset[int]]:
        """The values that a plan annotates inside the function, by their classes."""
        classes = dict.fromkeys(self.classes.of_value[value] for value, _ in plan.inner)
        for each in classes:
            yield frozenset(v for v, _ in plan.inner if self.classes.of_value[v] == each)

    def _program(self, objective: Objective, limit: int | None) -> ShardingProgram:
        prices = Prices(self.grid, self.device_model, objective)
        return ShardingProgram(self.classes, prices, limit, self._peaks)

    @cached_property
    def _peaks(self) -> Sequence[LiveValues]:
        return live_values(self.function, self.classes)
