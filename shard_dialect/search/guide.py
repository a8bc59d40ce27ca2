"""Plans from the sharding program: they guide the search, which runs the passes on each.

The sharding program knows the memory only roughly. Where the passes need more than a solution says,
it is solved again for a limit that is lower by as much. The passes choose by bytes, so solutions
for the fewest bytes are tried for each objective.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shard_dialect.model import Grid
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.search.choices.live_values import live_values
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

_TRIES = 4
"""How often a program is solved for a lower limit."""
_LESS = 0.98
"""A lower limit is less than what is needed by this factor."""
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
            limit = self.memory_limit
            for _ in range(_TRIES):
                left = end - time.monotonic()
                if left < 0:
                    return
                program = self._program(objective, limit)
                solutions = program.solutions(min(left, _PART * seconds))
                maker = PlanMaker(self.function, program, self.free)
                tried: dict[Plan, None] = {}
                for solution in solutions[:_SOLUTIONS]:
                    plan = maker.plan(solution)
                    tried |= dict.fromkeys((plan, plan.with_inner({})))
                yield from tried
                peaks = [costs.peak for each in tried if (costs := known.get(each))]
                if self.memory_limit is None or limit is None or not peaks:
                    break
                if min(peaks) <= self.memory_limit:
                    break
                limit = int(limit * self.memory_limit / min(peaks) * _LESS)

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
        return ShardingProgram(
            self.classes, prices, limit, live_values(self.function, self.classes)
        )
