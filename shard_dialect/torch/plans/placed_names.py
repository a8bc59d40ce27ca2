"""A plan for one module: which placements its tensors have, and which values inside are marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.distributed.tensor import Shard

from shard_dialect.model import Annotation, Grid
from shard_dialect.torch.graph.flat_module import (
    GRADIENT,
    LOSS,
    OUTPUT,
    UPDATED,
    FlatModule,
    aliases_of,
)
from shard_dialect.torch.plans.parallel_styles import Layouts, layouts_of
from shard_dialect.torch.plans.placement_lists import ByAxis, Placement, annotation_of, naming
from shard_dialect.torch.plans.plan_rules import NOT_SPLIT, Rule, matches_nothing, matching

ByName = dict[str, dict[int, Placement]]
_LATER = 1
"""The priority of what `fully_shard` splits: activations are not to follow the parameters."""


@dataclass
class PlacedModule:
    """Rules, applied to the names of a module. Of several for one tensor and axis, the first holds.

    A rule names parameters and buffers, arguments, results, or modules, whose outputs it places.
    """

    flat: FlatModule
    grid: Grid
    tensors: ByName = field(default_factory=dict)
    """Placements of parameters, buffers and arguments."""
    results: list[Rule] = field(default_factory=list)
    """The rules that may be about results, whose names are known only after the export."""
    late: set[str] = field(default_factory=set)
    """The parameters that `fully_shard` splits."""
    inputs: dict[str, list[tuple[int, Layouts]]] = field(default_factory=dict)
    """What styles say of modules' inputs, with the mesh dimension that it is about."""
    outputs: ByName = field(default_factory=dict)
    """Placements of modules' outputs."""

    @classmethod
    def of(cls, flat: FlatModule, rules: Sequence[Rule], grid: Grid) -> PlacedModule:
        """Raises `ShardError` for a rule that matches nothing, or is for another kind of module."""
        placed = cls(flat, grid)
        for rule in rules:
            placed._apply(rule)
        return placed

    def _apply(self, rule: Rule) -> None:
        modules = dict(self.flat.module.named_modules(remove_duplicate=False))
        tensors = {**aliases_of(self.flat), **{name: name for name in self.flat.names}}
        if rule.style is not None:
            found = matching(rule.pattern, modules)
            if not found:
                raise matches_nothing(rule.pattern, modules, "module")
            for name in found:
                self._style(rule, name, modules[name])
        elif rule.split is not None:
            self._split(rule, modules, tensors)
        else:
            assert rule.placements is not None, "a rule has one of the three"
            named = matching(rule.pattern, tensors)
            for name in named:
                self._place(self.tensors, tensors[name], rule.placements)
            inside = [name for name in matching(rule.pattern, modules) if name]
            for name in inside:
                self._place(self.outputs, name, rule.placements)
            self.results.append(rule)
            if not named and not inside and not rule.pattern.startswith((OUTPUT, LOSS)):
                known = [*tensors, *modules, OUTPUT]
                raise matches_nothing(rule.pattern, known, "tensor or module")

    def _place(self, where: ByName, name: str, placements: ByAxis) -> None:
        where.setdefault(name, {})
        for axis, placement in placements.items():
            where[name].setdefault(axis, placement)

    def _style(self, rule: Rule, name: str, module: Any) -> None:
        layouts = layouts_of(rule.style, module, name)
        aliases = aliases_of(self.flat)
        for parameter, placement in layouts.parameters.items():
            full = f"{name}.{parameter}" if name else parameter
            self._place(self.tensors, aliases.get(full, full), {rule.axis: placement})
        if layouts.inputs or layouts.keywords:
            self.inputs.setdefault(name, []).append((rule.axis, layouts))
        if layouts.outputs and layouts.outputs[0] is not None:
            self._place(self.outputs, name, {rule.axis: layouts.outputs[0]})

    def _split(self, rule: Rule, modules: Any, tensors: dict[str, str]) -> None:
        assert rule.split is not None, "a rule of this kind"
        prefixes = matching(rule.pattern, modules)
        below = {
            name: own
            for name, own in tensors.items()
            if any(not each or name.startswith(f"{each}.") for each in prefixes)
        }
        below |= {name: tensors[name] for name in matching(rule.pattern, tensors)}
        parameters = dict(self.flat.module.named_parameters())
        found = sorted({own for own in below.values() if own in parameters})
        if not found:
            raise matches_nothing(rule.pattern, [*modules, *tensors], "parameter")
        for name in found:
            placement = rule.split(parameters[name])
            if placement is not NOT_SPLIT and parameters[name].dim():
                self._place(self.tensors, name, {rule.axis: placement or Shard(0)})
                self.late.add(name)

    def annotation(
        self, name: str, shape: Sequence[int], rest: ByAxis | None = None
    ) -> Annotation | None:
        """Of a parameter, a buffer or an argument; `None` where propagation decides.

        `rest` are placements for axes of which the plan says nothing.
        """
        placements = {**(rest or {}), **self.tensors.get(name, {})}
        is_state = name in self.flat.state
        if not placements and not is_state:
            return None
        with naming(name):
            return annotation_of(
                placements,
                shape,
                self.grid,
                open_elsewhere=not is_state,
                priority=_LATER if name in self.late else None,
            )

    def result_annotation(self, name: str, shape: Sequence[int]) -> Annotation | None:
        """Of a result; a gradient and an updated buffer have what their tensor has."""
        if name.startswith((GRADIENT, UPDATED)):
            return self.annotation(name.partition(".")[2], shape)
        placements: dict[int, Placement] = {}
        for rule in self.results:
            if rule.placements and matching(rule.pattern, [name]):
                placements = {**rule.placements, **placements}
        if not placements:
            return None
        with naming(name):
            return annotation_of(placements, shape, self.grid, open_elsewhere=True)

    def check_results(self, names: Sequence[str]) -> None:
        """Raise for a rule about a result that there is not."""
        for rule in self.results:
            if rule.pattern.startswith((OUTPUT, LOSS)):
                modules = dict(self.flat.module.named_modules())
                known = [*names, *self.flat.names, *modules]
                if not matching(rule.pattern, known):
                    raise matches_nothing(rule.pattern, names, "result")
