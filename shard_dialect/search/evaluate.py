"""The cost of a plan, by running the passes on the program with its annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Literal

from shard_dialect.analysis.program_costs import Costs, partitioned_costs
from shard_dialect.errors import ShardError, value_text
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import silent
from shard_dialect.ir.function import boundary, functions_of, name_of, set_boundary
from shard_dialect.ir.mesh.annotation_ops import LOOPS, annotate_loops
from shard_dialect.ir.mesh.attributes import SHARDING
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import read_functions
from shard_dialect.model import Annotation, Sharding
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.processes.code_of_users import of_user
from shard_dialect.search.plan import Plan
from shard_dialect.search.recipes import Recipe
from shard_dialect.search.searched_function import Site, searched
from shard_dialect.search.state import tie

OwnObjective = Literal["time", "bytes", "memory"]
Objective = OwnObjective | Callable[[Costs], float]
"""Ours by name, or a user's function of what a plan costs a device: less is better."""


@dataclass(frozen=True, order=True)
class Score:
    """Plans are compared by these, in their order: the memory over the limit comes first."""

    excess: int
    """The bytes of a device above the memory limit."""
    objective: float
    then: float
    """The tie-break: the modelled time, or the bytes where time is the objective."""
    splits: int
    """The number of dimensions that the plan splits."""

    def worth_after(self, before: Score) -> float:
        """How much better it is than `before`: what it brings for what it costs more."""
        less = before.excess - self.excess
        more = self.objective - before.objective
        if not before.excess:
            return -more
        return less / max(more, 1e-9 * (abs(before.objective) + 1))


@dataclass(frozen=True)
class Evaluator:
    """Evaluates plans for the function `entry` of a module with imported annotations."""

    text: str
    """The module for plans of the boundary."""
    inlined: str
    """The module for those with annotations inside, also of what called functions compute."""
    entry: str
    grid: str
    """The name of the grid whose axes plans use."""
    device_model: DeviceModel
    objective: Objective = "time"
    memory_limit: int | None = None
    sites: Mapping[int, Site] = field(default_factory=dict)
    """Where the values are that plans annotate inside the function."""
    recipe: Recipe | None = None
    """The pipeline that is made of the annotated program."""
    states: tuple[tuple[int, int], ...] = ()
    """The arguments and results that are put into sharding groups after that."""

    def annotated(self, plan: Plan) -> ir.Module:
        """The module with the plan's annotations, in the current context."""
        is_inside = bool(plan.inner or plan.loops)
        module = ir.Module.parse(self.inlined if is_inside else self.text)
        shardings = Shardings.of(module.operation)
        function = next(op for op in functions_of(module.operation) if name_of(op) == self.entry)
        arguments, results = boundary(function, "arg_attrs"), boundary(function, "res_attrs")
        entries = [*arguments, *results]
        for tensor, splits in plan.splits:
            annotation = Annotation(Sharding(self.grid, splits))
            entries[tensor][SHARDING] = shardings.write(annotation)
        set_boundary(function, "arg_attrs", arguments)
        set_boundary(function, "res_attrs", results)
        if is_inside:
            self._annotate_inside(module, plan, shardings)
        if self.recipe is not None:
            run_pipeline(module, f"pipeline{{{self.recipe}}}")
            tie(module.operation, self.entry, self.states)
        return module

    def _annotate_inside(self, module: ir.Module, plan: Plan, shardings: Shardings) -> None:
        functions = {each.name: each for each in read_functions(searched(module.operation))}
        for value, loops in plan.loops:
            name, op, _ = self.sites[value]
            function, handle = functions[name].handle, functions[name].ops[op].handle
            if LOOPS not in handle.attributes:  # what the user wrote holds
                annotate_loops(function, handle, loops, self.grid)
        for value, splits in plan.inner:
            name, op, result = self.sites[value]
            handle = functions[name].ops[op].handle
            attribute = shardings.write(Annotation(Sharding(self.grid, splits)))
            with ir.InsertionPoint.after(handle), handle.location:
                annotated = build.annotate(handle.results[result], attribute, as_result=True)
            handle.results[result].replace_all_uses_except(annotated, annotated.owner.operation)

    def costs(self, plan: Plan) -> Costs | None:
        """The costs of a plan; `None` if it cannot be partitioned."""
        try:
            return self.known_costs(plan)
        except ShardError:
            return None

    def known_costs(self, plan: Plan) -> Costs:
        """The costs of a plan. Raises a located `ShardError` if it cannot be partitioned."""
        with silent():  # about plans that are tried, not chosen
            return partitioned_costs(self.annotated(plan), self.entry, self.device_model)[0]

    def score(self, plan: Plan, costs: Costs) -> Score:
        """How good a plan is; less is better."""
        limit = self.memory_limit
        then = costs.bytes if self.objective == "time" else costs.seconds
        splits = sum(bool(axes) for _, dims in plan.splits for axes in dims)
        excess = max(0, costs.peak - limit) if limit is not None else 0
        return Score(excess, self._objective(costs), then, splits)

    def _objective(self, costs: Costs) -> float:
        objective = self.objective
        if not callable(objective):
            return {"time": costs.seconds, "bytes": costs.bytes, "memory": costs.peak}[objective]
        what = f"objective '{getattr(objective, '__name__', objective)}'"
        found = of_user(what, lambda: objective(costs), function=objective)
        number = of_user(what, lambda: float(found)) if isinstance(found, int | float) else nan
        if isnan(number):
            raise ShardError(f"{what} returned {value_text(found)} for {costs}: expected a number")
        return number
