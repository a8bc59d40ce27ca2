"""Marks on the values inside of a module: its submodules' inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shard_dialect.model import Annotation
from shard_dialect.torch.graph.export_graph import is_tensor, mark
from shard_dialect.torch.graph.tensor_trees import Tensor
from shard_dialect.torch.plans.parallel_styles import Layouts
from shard_dialect.torch.plans.placed_names import PlacedModule
from shard_dialect.torch.plans.placement_lists import ByAxis, Placement, annotation_of, naming


@dataclass(frozen=True)
class Mark:
    """What a marked value has."""

    annotation: Annotation
    is_input: bool
    """Whether it is a module's input: the value itself may have another sharding."""
    given: Mapping[int, Placement]
    """What an argument of the whole module has, if it is the marked value."""


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
