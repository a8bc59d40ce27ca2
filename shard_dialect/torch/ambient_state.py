"""The state of torch and of Python that the ops of a module depend on, beside its arguments.

It is the autocast that is active, and of the module the structure, hooks inside, the types of its
tensors, and the attributes with plain values: `training`, the `p` of a dropout, a `temperature`.
A program is for one such state. Where `forward` sets attributes, a call of the program does, too.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import BuiltinFunctionType, FunctionType, SimpleNamespace
from typing import Any

import torch

_DEVICES = ("cpu", "cuda")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype)
_COMPARED = frozenset((*_PLAIN, FunctionType, BuiltinFunctionType))
_RECORDS = (SimpleNamespace, argparse.Namespace)
_OF_TORCH = frozenset(vars(torch.nn.Module())) - {"training"}
"""What each module has: its tensors, modules and hooks, which are looked at by themselves."""
_OPAQUE = object()
"""What stands for a value that is not looked at."""

State = tuple[Any, ...]
Attributes = Mapping[str, Mapping[str, Any]]
"""The names of modules -> those of attributes -> values."""


def ambient_state(module: Any) -> State:
    """The state that a trace of the module depends on; equal states have the same program."""
    autocast = tuple(
        torch.get_autocast_dtype(each) if torch.is_autocast_enabled(each) else None
        for each in _DEVICES
    )
    tensors = tuple(
        (name, each.dtype, each.shape)
        for named in (module.named_parameters(), module.named_buffers())
        for name, each in named
    )
    seen: dict[int, Any] = {}
    modules = tuple(
        (name, _attributes(each, seen), *((type(each), *_hooks(each)) if name else ()))
        for name, each in module.named_modules()
    )
    return (*autocast, torch.get_default_dtype(), modules, tensors)


@contextmanager
def in_state(module: Any, state: State) -> Iterator[None]:
    """Within a `with` block, torch is in an `ambient_state` of before, and derives."""
    *autocast, default, modules, _ = state
    default_now = torch.get_default_dtype()
    own = dict(module.named_modules())
    before = {
        name: {key: each[1] for key, each in attributes if _is_scalar(each)}
        for name, attributes, *_ in modules
        if name in own
    }
    now = {
        name: {key: vars(own[name])[key] for key in keys if key in vars(own[name])}
        for name, keys in before.items()
    }
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        for device, dtype in zip(_DEVICES, autocast, strict=True):
            if dtype is not None or torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, dtype, enabled=dtype is not None))
        torch.set_default_dtype(default)
        set_attributes(module, before)
        try:
            yield
        finally:
            torch.set_default_dtype(default_now)
            set_attributes(module, now)


def set_attributes(module: Any, attributes: Attributes) -> None:
    """Set attributes that are no tensors and no modules, without what `__setattr__` does."""
    for name, each in attributes.items():
        vars(module.get_submodule(name)).update(copy.deepcopy(dict(each)))


def changed_attributes(before: State, after: State) -> Iterator[str]:
    """The names of the attributes in which two states differ, if modules are the same in both."""
    for (name, own, *_), (_, other, *_) in zip(before[-2], after[-2], strict=False):
        pairs = dict(own)
        changed = [key for key, each in other if pairs.get(key) != each]
        yield from (f"{name}.{key}" if name else key for key in changed)


def _attributes(module: Any, seen: dict[int, Any]) -> tuple[Any, ...]:
    own = ((key, value) for key, value in vars(module).items() if key not in _OF_TORCH)
    pairs = ((key, _described(value, seen)) for key, value in own)
    return tuple((key, each) for key, each in pairs if each is not _OPAQUE)


def _described(value: Any, seen: dict[int, Any]) -> Any:
    """A plain value, or a record or collection of them, as what compares as it does."""
    kind = type(value)
    if kind in _COMPARED:
        return (kind, value) if value == value else (kind, "nan")
    if kind in (list, tuple):
        inside = tuple(_described(each, seen) for each in value)
        return _OPAQUE if _OPAQUE in inside else (kind, inside)
    if not (kind is dict or _is_record(value)):
        return _OPAQUE
    if id(value) not in seen:
        seen[id(value)] = _OPAQUE  # of one that is inside of itself
        held = value if kind is dict else vars(value)
        pairs = ((key, _described(each, seen)) for key, each in held.items())
        found = tuple((key, each) for key, each in pairs if each is not _OPAQUE)
        seen[id(value)] = (kind, found) if found else _OPAQUE
    return seen[id(value)]


def _is_record(value: Any) -> bool:
    """Whether it is a configuration, as those of transformers, which can be written as a dict."""
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return False
    is_record = isinstance(value, _RECORDS) or dataclasses.is_dataclass(value)
    return is_record or (hasattr(value, "to_dict") and not isinstance(value, torch.nn.Module))


def _is_scalar(described: Any) -> bool:
    return isinstance(described[1], described[0]) and described[0] in _PLAIN


def _hooks(module: Any) -> tuple[Any, ...]:
    """The numbers that torch gives to hooks."""
    return tuple(tuple(getattr(module, kind)) for kind in _HOOKS)
