"""Plans as people write them, as a list of rules.

    {"layers.*.wq.weight": [Replicate(), Shard(0)],        a placement for each mesh dimension
     "tp": {"layers.*.wo": RowwiseParallel()},             a style, or a placement, for this one
     "dp": fully_shard}                                    parameters split along this one

A name has one part for each dot. `*` and `?` in a part are wildcards, `**` is any number of parts.

The styles of `parallelize_module`: what each says of a module's parameters, inputs and outputs.

|                   | Linear's weight, bias | Embedding's | input      | output           |
|-------------------|-----------------------|-------------|------------|------------------|
| ColwiseParallel   | Shard(0), Shard(0)    | Shard(1)    | replicated | `output_layouts` |
| RowwiseParallel   | Shard(1), replicated  | Shard(0)    | Shard(-1)  | `output_layouts` |
| SequenceParallel  | replicated            | replicated  | Shard(1)   | Shard(1)         |

In torch, modules exchange local tensors, whose layouts `input_layouts` tell. Our values are global:
only the inputs of the whole module need to be told, and those inside have what propagation gives.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch.distributed.tensor import Replicate, Shard

from shard_dialect.errors import ShardError
from shard_dialect.model import Grid
from shard_dialect.torch.plans.placement_lists import ByAxis, Placement, is_placement

Plan = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """A rule of a plan for all names that match a pattern: one of the three."""

    pattern: str
    placements: ByAxis | None = None
    style: Any = None
    """A `ParallelStyle`, for the modules of these names."""
    split: Callable[[Any], Any] | None = None
    """From a parameter to its placement, as the `shard_placement_fn` of `fully_shard`."""
    axis: int = 0
    """The mesh dimension that `style` and `split` are about."""
    policy: Any = None
    """The `MixedPrecisionPolicy` of what `split` is about."""


def rules_of(plan: Plan, grid: Grid) -> list[Rule]:
    """The rules of a plan, in its order. Raises `ShardError` for an object that is no plan."""
    return list(_rules(plan, grid, None))


def _rules(plan: Plan, grid: Grid, axis: int | None) -> Iterator[Rule]:
    if not isinstance(plan, Mapping):
        raise ShardError(f"a plan is a dict from names of tensors and modules, not {plan!r}")
    names = [grid.axis_name(each) for each in range(grid.rank)]
    for key, value in plan.items():
        is_nested = isinstance(value, Mapping) or _splits(value)
        if axis is None and key in names and is_nested:
            inner = value if isinstance(value, Mapping) else {"**": value}
            yield from _rules(inner, grid, names.index(key))
        elif isinstance(value, Mapping):
            raise ShardError(
                f'"{key}" is no dimension of the mesh; its dimensions: {", ".join(names)}'
            )
        else:
            yield _rule(key, value, grid, axis)


def _rule(pattern: str, value: Any, grid: Grid, axis: int | None) -> Rule:
    if isinstance(value, (list, tuple)) and all(map(is_placement, value)):
        axes = range(grid.rank) if axis is None else [axis]
        if len(value) != len(axes):
            raise ShardError(
                f'"{pattern}" has {len(value)} placements: expected {len(axes)}, one for each '
                "dimension of the mesh"
            )
        return Rule(pattern, dict(zip(axes, value, strict=True)))
    if axis is None and grid.rank > 1:
        raise ShardError(
            f'"{pattern}" has {value!r}, and the mesh {grid.rank} dimensions: give a list of one '
            "placement for each, or put this under the name of the dimension that it is about, as "
            f'{{"{grid.axis_name(grid.rank - 1)}": {{"{pattern}": ...}}}}'
        )
    if is_placement(value):
        return Rule(pattern, {axis or 0: value})
    if hasattr(value, "_apply"):
        return Rule(pattern, style=value, axis=axis or 0)
    if _splits(value):
        policy = getattr(value, "keywords", {}).get("mp_policy")
        return Rule(pattern, split=_placement_function(value), axis=axis or 0, policy=policy)
    raise ShardError(
        f'"{pattern}" has {value!r}: expected placements, a style of parallelize_module, or '
        "fully_shard"
    )


def _splits(value: Any) -> bool:
    is_class_or_style = isinstance(value, type) or hasattr(value, "_apply")
    return callable(value) and not is_class_or_style and not is_placement(value)


def _placement_function(value: Any) -> Callable[[Any], Any]:
    """That of `fully_shard`, of a `functools.partial` of it, or the function itself."""
    function = getattr(value, "func", value)
    if getattr(function, "__name__", "") != "fully_shard":
        of_user: Callable[[Any], Any] = value
        return of_user
    keywords = getattr(value, "keywords", {})
    given = keywords.get("shard_placement_fn") or (lambda _: None)
    ignored = {id(each) for each in keywords.get("ignored_params") or ()}
    return lambda parameter: NOT_SPLIT if id(parameter) in ignored else given(parameter)


NOT_SPLIT = object()
"""The result of a rule's function for a parameter that is to be left alone."""


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that match.

    >>> matching("layers.*.w", ["layers.0.w", "layers.0.a.w"]), matching("**.w", ["w", "a.b.w"])
    (['layers.0.w'], ['w', 'a.b.w'])
    """
    parts = pattern.split(".") if pattern else []
    return [name for name in names if _matches(parts, name.split(".") if name else [])]


def _matches(pattern: Sequence[str], name: Sequence[str]) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "**":
        return any(_matches(pattern[1:], name[start:]) for start in range(len(name) + 1))
    return bool(name) and fnmatchcase(name[0], pattern[0]) and _matches(pattern[1:], name[1:])


def matches_nothing(pattern: str, names: Iterable[str], what: str) -> ShardError:
    """The error for a pattern of a plan, with the names that are nearest to it."""
    known = [each for each in names if each]
    near = difflib.get_close_matches(pattern, known, n=3, cutoff=0.5)
    outermost = sorted(known, key=lambda name: name.count("."))  # with the arguments among them
    hint = ", ".join(f'"{each}"' for each in near or outermost[:6])
    return ShardError(f'"{pattern}" in the plan matches no {what}; near: {hint}')


@dataclass(frozen=True)
class Layouts:
    """The placements of a style for one module along one mesh dimension; `None` for none."""

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
