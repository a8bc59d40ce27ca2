"""A plan for one module: which placements its tensors have, and which values inside are marked.

Marks on the values inside of a module: its submodules' inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.distributed.tensor import Shard
from torch.utils import _pytree as pytree

from shard_dialect.model import Annotation, Grid
from shard_dialect.torch.graph.flat_module import (
    GRADIENT,
    INDEX,
    LOSS,
    OUTPUT,
    UPDATED,
    WRITTEN,
    FlatModule,
    aliases_of,
)
from shard_dialect.torch.graph.tensor_trees import Tensor, is_tensor
from shard_dialect.torch.graph.trace_graph import mark
from shard_dialect.torch.plans.placement_lists import (
    ByAxis,
    Placement,
    annotation_of,
    from_the_front,
    naming,
    split_last,
)
from shard_dialect.torch.plans.plan_rules import (
    NOT_SPLIT,
    Layouts,
    Rule,
    layouts_of,
    matches_nothing,
    matching,
)

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
    may_miss: bool = False
    tensors: ByName = field(default_factory=dict)
    """Placements of parameters, buffers and arguments."""
    results: list[Rule] = field(default_factory=list)
    """The rules that may be about results, whose names are known only after the export."""
    late: dict[str, set[int]] = field(default_factory=dict)
    """The parameters that `fully_shard` splits, and the axes that it has placed."""
    inputs: dict[str, list[tuple[int, Layouts]]] = field(default_factory=dict)
    """The layouts of modules' inputs by styles, with the mesh dimension that each is about."""
    outputs: ByName = field(default_factory=dict)
    """Placements of modules' outputs."""
    policies: dict[str, Any] = field(default_factory=dict)
    """The mixed precision of modules, by the rules of `fully_shard`."""
    given: dict[str, ByAxis] = field(default_factory=dict)
    """The placements that the user has given to what comes in and goes out, once annotated."""

    @classmethod
    def of(
        cls,
        flat: FlatModule,
        rules: Sequence[Rule],
        grid: Grid,
        may_miss: bool = False,
        arguments: Mapping[str, ByAxis] | None = None,
    ) -> PlacedModule:
        """Raises `ShardError` for a rule that matches nothing, or is for another kind of module.

        With `may_miss` a rule may match nothing, as those for arguments that a call leaves out.
        """
        placed = cls(flat, grid, may_miss=may_miss)
        for rule in rules:
            placed._apply(rule)
        for name, placements in (arguments or {}).items():
            placed._place(placed.tensors, name, placements)
        for name, axes in placed.late.items():
            rank = flat.state[name].dim()
            placed.tensors[name] = dict(split_last(placed.tensors[name], axes, rank, grid))
        return placed

    def _apply(self, rule: Rule) -> None:
        modules = dict(self.flat.module.named_modules(remove_duplicate=False))
        tensors = {
            **aliases_of(self.flat.module, self.flat.state),
            **{name: name for name in self.flat.names},
        }
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
            is_missed = not named and not inside and not self.may_miss
            if is_missed and not rule.pattern.startswith((OUTPUT, LOSS)):
                known = [*tensors, *modules, OUTPUT]
                raise matches_nothing(rule.pattern, known, "tensor or module")

    def _place(self, where: ByName, name: str, placements: ByAxis) -> None:
        where.setdefault(name, {})
        for axis, placement in placements.items():
            where[name].setdefault(axis, placement)

    def _style(self, rule: Rule, name: str, module: Any) -> None:
        layouts = layouts_of(rule.style, module, name)
        aliases = aliases_of(self.flat.module, self.flat.state)
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
        for name in prefixes:
            self.policies.setdefault(name, rule.policy)
        for name in found:
            placement = rule.split(parameters[name])
            if placement is NOT_SPLIT:
                continue
            if parameters[name].is_floating_point():
                self.flat.types.setdefault(name, getattr(rule.policy, "param_dtype", None))
            if parameters[name].dim():
                late = self.late.setdefault(name, set())
                if rule.axis not in self.tensors.get(name, {}):
                    late.add(rule.axis)
                self._place(self.tensors, name, {rule.axis: placement or Shard(0)})

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
        own = self.flat.state.get(name, self.flat.arguments.tensors.get(name))
        if own is not None and own.is_complex():  # one more dimension has the parts
            placements = dict(from_the_front(placements, own.dim()))
        self.given[name] = placements
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
        if name.startswith(INDEX):
            return None
        if name.startswith((GRADIENT, UPDATED, WRITTEN)):
            own = name.partition(".")[2]
            found = self.annotation(own, shape)
            self.given[name] = self.given.get(own, {})
            return found
        placements: dict[int, Placement] = {}
        for rule in self.results:
            if rule.placements and matching(rule.pattern, [name]):
                placements = {**rule.placements, **placements}
        if not placements:
            return None
        if name in self.flat.complex_names:
            placements = dict(from_the_front(placements, len(shape) - 1))
        self.given[name] = placements
        with naming(name):
            return annotation_of(placements, shape, self.grid, open_elsewhere=True)

    def check_results(self, names: Sequence[str]) -> None:
        """Raise for a rule about a result that there is not."""
        for rule in self.results if not self.may_miss else ():
            if rule.pattern.startswith((OUTPUT, LOSS)):
                modules = dict(self.flat.module.named_modules())
                known = [*names, *self.flat.names, *modules]
                if not matching(rule.pattern, known):
                    raise matches_nothing(rule.pattern, names, "result")


@dataclass(frozen=True)
class Mark:
    """The placements of a marked value."""

    annotation: Annotation
    is_input: bool
    """Whether it is a module's input: the value itself may have another sharding."""
    given: Mapping[int, Placement]
    """The placements of an argument of the whole module, if it is the marked value."""


@dataclass
class Marker:
    """Gives the values of modules that a plan places numbered marks, while the module is traced."""

    placed: PlacedModule
    marks: list[Mark] = field(default_factory=list)
    """By number."""

    def hooks(self) -> Iterator[tuple[Any, Any, Any]]:
        """For `hooked`: the marks of modules' inputs and outputs."""
        placed = self.placed
        modules = dict(placed.flat.module.named_modules(remove_duplicate=False))
        for name in dict.fromkeys((*placed.inputs, *placed.outputs)):
            inputs = placed.inputs.get(name)
            before = _Inputs(self, name, inputs) if inputs else None
            outputs = placed.outputs.get(name)
            after = _Output(self, name, outputs) if outputs else None
            yield modules[name], before, after
        for name, policy in placed.policies.items():
            if policy is not None:
                yield modules[name], _casting(policy), _casting_result(policy)

    def marked(
        self,
        value: Tensor,
        name: str,
        placements: Mapping[int, Placement],
        given: Mapping[int, Placement] | None = None,
    ) -> Tensor:
        """The value with a mark."""
        is_input = given is not None
        with naming(f"{name} ({'input' if is_input else 'output'})"):
            annotation = annotation_of(
                placements,
                value.shape,
                self.placed.grid,
                open_elsewhere=True,
                may_be_partial=not is_input,
            )
        self.marks.append(Mark(annotation, is_input, given or {}))
        return mark(value, len(self.marks) - 1)


def _casting(policy: Any) -> Any:
    """The arguments of a module in the type of its parameters, if its policy says so."""
    if policy.param_dtype is None or not policy.cast_forward_inputs:
        return None
    return lambda args, kwargs: pytree.tree_map(_to(policy.param_dtype), (args, kwargs))


def _casting_result(policy: Any) -> Any:
    if policy.output_dtype is None:
        return None
    return lambda result: pytree.tree_map(_to(policy.output_dtype), result)


def _to(dtype: Any) -> Any:
    return lambda each: each.to(dtype) if is_tensor(each) and each.is_floating_point() else each


@dataclass(frozen=True)
class _Inputs:
    marker: Marker
    name: str
    layouts: Sequence[tuple[int, Layouts]]

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        positional, keywords = list(args), dict(kwargs)
        first = next((key for key, each in keywords.items() if is_tensor(each)), None)
        for axis, layouts in self.layouts:
            if not positional and first is not None and layouts.inputs:
                one = (layouts.inputs[0], layouts.given[0])
                keywords[first] = self._mark(keywords[first], axis, *one)
            for number, each in enumerate(positional[: len(layouts.inputs)]):
                one = (layouts.inputs[number], layouts.given[number])
                positional[number] = self._mark(each, axis, *one)
            for key, placement in layouts.keywords.items():
                if key in keywords:
                    keywords[key] = self._mark(keywords[key], axis, placement, None)
        return tuple(positional), keywords

    def _mark(self, value: Any, axis: int, placement: Placement, given: Placement) -> Any:
        if placement is None or not is_tensor(value):
            return value
        own: ByAxis = {} if given is None else {axis: given}
        return self.marker.marked(value, self.name, {axis: placement}, own)


@dataclass(frozen=True)
class _Output:
    marker: Marker
    name: str
    placements: ByAxis

    def __call__(self, result: Any) -> Any:
        """The result, or the first tensor of a tuple, with a mark."""
        if is_tensor(result):
            return self.marker.marked(result, self.name, self.placements)
        if isinstance(result, (tuple, list)) and result and is_tensor(result[0]):
            return type(result)([self(result[0]), *result[1:]])
        return result
