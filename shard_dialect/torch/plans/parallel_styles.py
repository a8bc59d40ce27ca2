"""The styles of `parallelize_module`: what each says of a module's parameters, inputs and outputs.

|                   | Linear's weight, bias | Embedding's | input      | output           |
|-------------------|-----------------------|-------------|------------|------------------|
| ColwiseParallel   | Shard(0), Shard(0)    | Shard(1)    | replicated | `output_layouts` |
| RowwiseParallel   | Shard(1), replicated  | Shard(0)    | Shard(-1)  | `output_layouts` |
| SequenceParallel  | replicated            | replicated  | Shard(1)   | Shard(1)         |

In torch, modules exchange local tensors, whose layouts `input_layouts` tell. Our values are global:
only the inputs of the whole module need to be told, and those inside have what propagation gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed.tensor import Replicate, Shard

from shard_dialect.errors import ShardError
from shard_dialect.torch.plans.placement_lists import Placement


@dataclass(frozen=True)
class Layouts:
    """What a style says of one module: placements along one mesh dimension, `None` for nothing."""

    parameters: Mapping[str, Placement] = field(default_factory=dict)
    given: Sequence[Placement] = ()
    """Of positional inputs, as they come."""
    inputs: Sequence[Placement] = ()
    """Of positional inputs, as the module needs them."""
    keywords: Mapping[str, Placement] = field(default_factory=dict)
    outputs: Sequence[Placement] = ()


def layouts_of(style: Any, module: Any, name: str) -> Layouts:
    """Raises `ShardError` for a style that is not torch's, or not for such a module."""
    for each in type(style).__mro__:
        if each.__name__ in _READ:
            return _READ[each.__name__](style, module, name)
    raise ShardError(
        f'the style {type(style).__name__} of "{name}" is none of {", ".join(_READ)}', name or None
    )


def _colwise(style: Any, module: Any, name: str) -> Layouts:
    weight = _dim(style, module, name, {"Linear": 0, "Embedding": 1})
    parameters = {"weight": Shard(weight), "bias": Shard(0)}
    return Layouts(
        _of(module, parameters),
        style.input_layouts,
        style.desired_input_layouts,
        outputs=style.output_layouts,
    )


def _rowwise(style: Any, module: Any, name: str) -> Layouts:
    weight = _dim(style, module, name, {"Linear": 1, "Embedding": 0})
    parameters = {"weight": Shard(weight), "bias": Replicate()}
    return Layouts(
        _of(module, parameters),
        style.input_layouts,
        (Shard(-1) if isinstance(module, torch.nn.Linear) else Replicate(),),
        outputs=style.output_layouts,
    )


def _sequence(style: Any, module: Any, name: str) -> Layouts:
    layouts = style.sequence_sharding
    return Layouts({}, layouts, layouts, outputs=layouts)


def _prepare_input(style: Any, module: Any, name: str) -> Layouts:
    return Layouts(
        {},
        style.input_layouts or (),
        style.desired_input_layouts or (),
        style.desired_input_kwarg_layouts,
    )


def _prepare_output(style: Any, module: Any, name: str) -> Layouts:
    return Layouts(outputs=style.desired_output_layouts)


def _prepare_both(style: Any, module: Any, name: str) -> Layouts:
    before = _prepare_input(style.prepare_module_input, module, name)
    after = _prepare_output(style.prepare_module_output, module, name)
    return Layouts({}, before.given, before.inputs, before.keywords, after.outputs)


_READ: Mapping[str, Callable[[Any, Any, str], Layouts]] = {
    "ColwiseParallel": _colwise,
    "RowwiseParallel": _rowwise,
    "SequenceParallel": _sequence,
    "PrepareModuleInput": _prepare_input,
    "PrepareModuleOutput": _prepare_output,
    "PrepareModuleInputOutput": _prepare_both,
}


def _dim(style: Any, module: Any, name: str, dims: Mapping[str, int]) -> int:
    for kind, dim in dims.items():
        if isinstance(module, getattr(torch.nn, kind)):
            return dim
    raise ShardError(
        f"{type(style).__name__} is for nn.Linear and nn.Embedding, not for "
        f"{type(module).__name__}: give its parameters placements by name",
        name or None,
    )


def _of(module: Any, parameters: Mapping[str, Placement]) -> dict[str, Placement]:
    own = {name for name, _ in module.named_parameters(recurse=False)}
    return {name: each for name, each in parameters.items() if name in own}
