"""Plans from the sharding program: they guide the search, which runs the passes on each.

The sharding program knows the memory only roughly. Where the passes need more than a solution says,
it is solved again for a limit that is lower by as much. The passes choose by bytes, so solutions
for the fewest bytes are tried where time is the objective, too.

A solution becomes a plan, the annotations with which the passes follow it:

    solution    %x [[0], []], %w1 [[], [1]], %h [[0], [1]], %w2 [[1], []], %y [[0], []]
    plan        %x, %w1, %w2, %y        %h follows: propagation gives it the same

All arguments and results are annotated as the solution has them. Where propagation would then give
a value inside the function another sharding, it is annotated, too, the first such one in the order
of the program that is not small beside others; and so on, until none is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from shard_dialect.analysis.program_costs import Costs
from shard_dialect.model import Annotation, Grid, Sharding
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.propagation.graph import NO_TENSOR
from shard_dialect.search.budget import Budget
from shard_dialect.search.choices.op_classes import (
    Classes,
    LiveValues,
    classes_of,
    live_values,
    tied_classes,
)
from shard_dialect.search.choices.op_strategies import Modes, Prices, strategies
from shard_dialect.search.choices.sharding_program import (
    MOST_PAIRS,
    MOST_PAIRS_OF_INTEGERS,
    ShardingProgram,
    Solution,
)
from shard_dialect.search.evaluate import OwnObjective
from shard_dialect.search.plan import Plan, Splits
from shard_dialect.search.searched_function import SearchedFunction

MOST_CLASSES = 16
"""The most classes of values inside a function that a plan annotates."""
_SMALL = 0.5
"""A class of values is not annotated while another one has twice its bytes, or more."""


@dataclass(frozen=True)
class PlanMaker:
    """Makes plans of a program's solutions; only tensors in `free` of the boundary get any."""

    function: SearchedFunction
    program: ShardingProgram
    free: frozenset[int]

    def plan(
        self,
        solution: Solution,
        *,
        carries_sums: bool = True,
        has_loops: bool = True,
        keeps_whole: bool = False,
    ) -> Plan:
        """The plan whose annotations lead to the solution, or near to it.

        Sums that loops carry are annotated as whole, so that the passes let loops carry them, or
        not: what loops write to in slices may then be reduced and scattered at once. Products are
        computed along the loops of the solution, if `has_loops`; the passes choose these for each
        product by itself, by bytes. What the solution leaves whole is annotated so, if
        `keeps_whole`; else propagation may split it, for better or for worse.
        """
        of_value = self.program.classes.of_value
        splits = {
            tensor: solution.shardings[of_value[value]].split_axes
            for tensor, value in enumerate(self.function.boundary)
            if tensor in self.free and of_value[value] in solution.shardings
        }
        inner = self._inner(solution, carries_sums)
        split = {tensor: each for tensor, each in splits.items() if any(each)}
        plan = Plan(loops=self._loops(solution) if has_loops else ()).with_splits(split)
        if keeps_whole:
            whole = {tensor: each for tensor, each in splits.items() if not any(each)}
            plan = plan.with_splits(self._that_propagation_splits(whole, split, inner))
        return plan.with_inner({value: each.split_axes for value, each in inner.items()})

    def _that_propagation_splits(
        self,
        whole: Mapping[int, Splits],
        split: Mapping[int, Splits],
        inner: Mapping[int, Sharding],
    ) -> Mapping[int, Splits]:
        """Those of the whole tensors that propagation splits, from the other annotations."""
        grid, boundary = self.program.prices.grid.name, self.function.boundary
        given = {boundary[tensor]: Sharding(grid, each) for tensor, each in split.items()}
        annotated = given | dict(inner)
        known = self.function.propagated({v: Annotation(each) for v, each in annotated.items()})
        return {
            tensor: each
            for tensor, each in whole.items()
            if not _is(known(boundary[tensor]), Sharding(grid, each))
        }

    def _loops(self, solution: Solution) -> tuple[tuple[int, Splits], ...]:
        """By the values that products make, the axes that split each loop.

        A product of partial sums has none: the passes find whether it can keep them.
        """
        split: dict[int, Splits] = {}
        for op, modes in zip(self.program.classes.ops, solution.modes, strict=True):
            if op.prepared.rule.is_product and not any(isinstance(m, frozenset) for m in modes):
                choices = tuple((mode,) for mode in modes)
                (strategy,) = strategies(op.prepared, self.program.prices.grid, choices)
                split |= dict.fromkeys(op.results, strategy.assignment)
        values = sorted(value for value in self.function.sites if value != NO_TENSOR)
        return tuple((value, split[n]) for value in values if (n := self._class(value)) in split)

    def _inner(self, solution: Solution, carries_sums: bool) -> dict[int, Sharding]:
        """The values inside the function to annotate."""
        wanted = self._wanted(solution, carries_sums)
        boundary = {
            value: solution.shardings[self._class(value)]
            for value in self.function.boundary
            if self._class(value) in solution.shardings
        }
        chosen: dict[int, Sharding] = {}
        for _ in range(MOST_CLASSES):
            annotations = {value: Annotation(each) for value, each in (boundary | chosen).items()}
            known = self.function.propagated(annotations)
            others = {
                number: sharding
                for number, sharding in wanted.items()
                if any(
                    value not in chosen and not _is(known(value), sharding)
                    for value in self._members[number]
                )
            }
            if not others:
                break
            most = max(map(self._bytes, others))
            number = next(each for each in others if self._bytes(each) >= _SMALL * most)
            chosen.update(dict.fromkeys(self._members[number], others[number]))
        return chosen

    def _wanted(self, solution: Solution, carries_sums: bool) -> Mapping[int, Sharding]:
        """The sharding in which ops make or read each class of values, if it is one.

        Partial values that others take as such have none, but for the sums that loops carry.
        """
        read: dict[int, set[Sharding]] = defaultdict(set)
        grid = self.program.prices.grid
        for op, modes in zip(self.program.classes.ops, solution.modes, strict=True):
            (strategy,) = strategies(op.prepared, grid, tuple((mode,) for mode in modes))
            for value, sharding in zip(op.operands, strategy.operands, strict=True):
                if sharding is not None:
                    read[value].add(sharding)
        found = {}
        for number in self._members:
            sharding = solution.shardings.get(number)
            if sharding is not None and sharding.partial:
                kind = self.program.classes.values[number]
                if any(each.partial for each in read[number]):
                    is_carried = carries_sums and kind.turns > kind.runs
                    sharding = sharding.bare if is_carried else None
                else:
                    sharding = next(iter(read[number])) if len(read[number]) == 1 else None
            if sharding is not None:
                found[number] = sharding.bare
        return found

    @cached_property
    def _members(self) -> Mapping[int, list[int]]:
        """The values that can be annotated of each class, in the order of the program."""
        members: dict[int, list[int]] = defaultdict(list)
        for value, _ in sorted(self.function.sites.items(), key=lambda each: each[1]):
            if value != NO_TENSOR and self.program.classes.values[self._class(value)].shape:
                members[self._class(value)].append(value)
        return members

    def _class(self, value: int) -> int:
        return self.program.classes.of_value[value]

    def _bytes(self, number: int) -> int:
        value = self.program.classes.values[number]
        return value.bytes * value.count


def _is(known: Annotation | None, sharding: Sharding) -> bool:
    """Whether propagation has given a value this sharding."""
    axes = known.sharding.split_axes if known else ((),) * sharding.rank
    return axes == sharding.split_axes


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
    """Guides a search for the shardings of a function: solutions as plans, and a lower bound."""

    function: SearchedFunction
    simplified: SearchedFunction
    """The function after upstream's simplifications: what the passes need not do is not there."""
    classes: Classes
    grid: Grid
    device_model: DeviceModel
    objective: OwnObjective
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
        objective: OwnObjective,
        memory_limit: int | None,
        free: frozenset[int],
    ) -> Guide:
        """The guide for a function, whose module must live as long."""
        classes = classes_of(function.graph, function.free)
        return cls(function, simplified, classes, grid, device_model, objective, memory_limit, free)

    def plans(self, known: Mapping[Plan, Costs | None], budget: Budget) -> Iterator[Plan]:
        """The plans to try; `known` has the costs of those that were tried before the next."""
        objectives: tuple[OwnObjective, ...] = (self.objective,)
        if self.objective == "time":
            objectives = ("time", "bytes")
        for objective in objectives:
            yield from self._within_memory(objective, known, budget)

    def price(self, budget: Budget) -> float:
        """About what the best plan costs: a solution's cost; infinite if it takes too long."""
        found = self._program(self.objective, self.memory_limit).solutions(budget, orders=1)
        return found[0].cost if found else inf

    def _within_memory(
        self, objective: OwnObjective, known: Mapping[Plan, Costs | None], budget: Budget
    ) -> Iterator[Plan]:
        """The plans of solutions for lower limits, until some fit; then for limits between."""
        limit, fits, too_much = self.memory_limit, 0, self.memory_limit
        for _ in range(_TRIES):
            if budget.is_over:
                return
            tried = self._plans_of(self._program(objective, limit), budget.part(_PART))
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

    def _plans_of(self, program: ShardingProgram, budget: Budget) -> list[Plan]:
        """The plans of a program's best solutions."""
        maker = PlanMaker(self.function, program, self.free)
        solutions = program.solutions(budget)[:_SOLUTIONS]
        has_loops = any(each.turns > each.runs for each in self.classes.values)
        carries = (True, False) if has_loops else (True,)
        plans = [maker.plan(each, carries_sums=sums) for each in solutions for sums in carries]
        plans += [
            maker.plan(each, carries_sums=sums, has_loops=whole, keeps_whole=whole)
            for each in solutions[:1]
            for whole in (True, False)
            for sums in carries
        ]
        return list(dict.fromkeys(plans))

    def pinned(self, plan: Plan) -> Plan:
        """The plan that also annotates merged dimensions, as propagation splits them.

        No reshape then moves behind other ops, which takes more time where merges need not wait.
        """
        function, graph = self.function, self.function.graph
        boundary = {function.boundary[tensor]: splits for tensor, splits in plan.splits}
        given = boundary | dict(plan.inner)
        grid = self.grid.name
        known = function.propagated(
            {value: Annotation(Sharding(grid, splits)) for value, splits in given.items()}
        )
        sizes, kinds = graph.graph.sizes, graph.graph.kinds
        inner = dict(plan.inner)
        for node in graph.graph.nodes:
            operand, result = node.values[0], node.values[-1]
            is_reshape = Trait.RESHAPES in traits_of(graph.ops[node.origin][1].name)
            ranks = [len(sizes[kinds[value]][0]) for value in (operand, result)]
            annotation = known(result)
            if is_reshape and ranks[1] < ranks[0] and result in function.sites and annotation:
                inner.setdefault(result, annotation.sharding.split_axes)
        return plan.with_inner(inner)

    def bound(self, budget: Budget) -> float | None:
        """A lower bound on all plans of the sharding program; `None` if it takes too long."""
        function, classes = self.simplified, self._simplified_classes
        prices = Prices(self.grid, self.device_model, self.objective, at_least=True)
        peaks = live_values(function, classes)
        tied = tied_classes(function, classes)
        program = ShardingProgram(classes, prices, self.memory_limit, peaks, tied)
        if program.pairs > MOST_PAIRS:
            return None
        relaxed = program.pairs > MOST_PAIRS_OF_INTEGERS
        solution = program.solve(budget, relaxed=relaxed)
        return None if solution is None else solution.bound

    def shared_out(self) -> float:
        """The seconds of all products where the devices share them, and never wait."""
        classes = self._simplified_classes  # products that are computed twice count once
        prices = Prices(self.grid, self.device_model, "time", at_least=True)
        nothing: tuple[Modes, ...] = ((None,),) * self.grid.rank
        total = sum(
            op.runs * prices.seconds(op, each, classes.values)
            for op in classes.ops
            if op.prepared.rule.is_product
            for each in strategies(op.prepared, self.grid, nothing)
        )
        return total / self.grid.size

    def inner_classes(self, plan: Plan) -> Iterator[frozenset[int]]:
        """The values that a plan annotates inside the function, by their classes."""
        classes = dict.fromkeys(self.classes.of_value[value] for value, _ in plan.inner)
        for each in classes:
            yield frozenset(v for v, _ in plan.inner if self.classes.of_value[v] == each)

    def _program(self, objective: OwnObjective, limit: int | None) -> ShardingProgram:
        key = (objective, limit)
        if key not in self._programs:
            self._programs[key] = self._new_program(objective, limit)
        return self._programs[key]

    def _new_program(self, objective: OwnObjective, limit: int | None) -> ShardingProgram:
        prices = Prices(self.grid, self.device_model, objective)
        tied = tied_classes(self.function, self.classes)
        return ShardingProgram(self.classes, prices, limit, self._peaks, tied)

    @cached_property
    def _simplified_classes(self) -> Classes:
        return classes_of(self.simplified.graph, self.simplified.free)

    @cached_property
    def _programs(self) -> dict[tuple[OwnObjective, int | None], ShardingProgram]:
        return {}

    @cached_property
    def _peaks(self) -> Sequence[LiveValues]:
        return live_values(self.function, self.classes)
