"""The state of torch and of Python that the ops of a module depend on, beside its arguments.

It is the autocast that is active, and of the module the structure, hooks inside, the types of its
tensors, and the attributes: `training`, the `p` of a dropout, a `temperature`. It is also what its
code reads of globals, of classes and of functions around. Plain values are compared, other objects
are the same or not, and tensors among them, whose elements are constants, are of one version.
A program is for one such state. Where `forward` sets attributes, a call of the program does, too.
"""

from __future__ import annotations

import dataclasses
import functools
import random
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from types import (
    BuiltinFunctionType,
    FunctionType,
    GeneratorType,
    ModuleType,
)
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch.nn.utils import parametrize

from shard_dialect.errors import ShardError
from shard_dialect.torch.graph.kept_values import HOOKS, OF_TORCH, Place, described, joined
from shard_dialect.torch.graph.tensor_trees import holds_tensors
from shard_dialect.torch.graph.trace_graph import AUTOCAST_DEVICES
from shard_dialect.torch.module_code import (
    PARTS,
    RECORDS,
    Code,
    Codes,
    attributes_of,
    code_of,
    is_of_others,
    is_of_user,
    spaces_of,
)

_DERIVING: Mapping[str, Callable[[Any], Any]] = {
    "is_grad_enabled": lambda _: torch.is_grad_enabled(),
    "requires_grad": lambda module: tuple(each.requires_grad for each in module.parameters()),
}
"""What tells code whether it is derived, by the names that it reads it by."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype)
_COMPARED = frozenset((*_PLAIN, FunctionType, BuiltinFunctionType))
_RANDOM: Mapping[type, Callable[[Any], Any]] = {
    random.Random: lambda each: each.getstate(),
    np.random.Generator: lambda each: each.bit_generator.state,
    np.random.RandomState: lambda each: each.get_state(),
}
"""Generators that are not torch's, and what they have drawn so far."""
_GENERATORS = (random._inst, np.random.mtrand._rand)
"""Those of Python's and of numpy's modules."""
_EVERYWHERE = tuple(
    getattr(torch.nn.modules.module, f"_global{name}")
    for name in (*HOOKS, "_forward_hooks_always_called")
)
_FILLED: tuple[Any, ...] = (OrderedDict, dict, list, tuple, deque, range)
_ITERATING = ("builtins", "collections", "itertools")
_OPAQUE = object()
"""What stands for a value that is not looked at."""

_Traced = TypeVar("_Traced")
_NOWHERE: Mapping[Place, bool] = {}


class State(NamedTuple):
    """What a trace of a module depends on; equal states have the same program."""

    autocast: tuple[Any, ...]
    """By device, the type, if it is active."""
    default: Any
    """The type that tensors have by default."""
    attributes: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
    """By module, of each what describes it."""
    around: tuple[tuple[str, Any], ...]
    """The same of globals and of what else is around modules."""
    structure: tuple[Any, ...]
    """The types of modules inside, their hooks, and those of all modules."""
    deriving: tuple[Any, ...]
    """What tells code whether it is derived, if it reads that: it may do other things then."""
    tensors: tuple[Any, ...]

    def changed(self, now: State) -> list[str]:
        """The names of the attributes, and of what is around, that differ in another state."""
        before, after = self._named(), now._named()
        return [name for name in {**before, **after} if before.get(name) != after.get(name)]

    def _named(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        own = ((joined(name, key), each) for name, pairs in self.attributes for key, each in pairs)
        for name, each in (*own, *self.around):
            found.setdefault(name, []).append(each)
        return found


def ambient_state(
    module: Any, codes: Codes, kept: Mapping[Place, bool] = _NOWHERE, is_watched: bool = False
) -> State:
    """The state now.

    `codes` keeps what was found in the module's code, for the next call. `kept` are places where
    calls leave tensors, or lists of some, that no call reads, and whether also numbers of some. One
    that `is_watched` tells more of what a trace may change: objects of which no code is read, and
    what generators of random numbers have drawn.
    """
    autocast = tuple(
        torch.get_autocast_dtype(each) if torch.is_autocast_enabled(each) else None
        for each in AUTOCAST_DEVICES
    )
    named = list(module.named_modules())
    tensors = tuple(
        (number, key, value.dtype, value.shape)
        for number, (_, each) in enumerate(named)
        for table in (each._parameters, each._buffers)
        for key, value in table.items()
        if value is not None
    )
    code = code_of([each for _, each in named], codes)
    look = _Look(code.names, near=code.near if is_watched else None)
    look.seen |= {  # in an LSTM's list of them
        id(value): _OPAQUE for _, each in named for value in each._parameters.values()
    }
    spaces = spaces_of(module, codes) if kept else {}
    unread = {id(each): each for each in code.unread(spaces)}
    for (name, key), has_numbers in kept.items():
        value = spaces[name].get(key) if name in spaces else None
        if has_numbers or holds_tensors(value):
            are_unread = has_numbers and not code.reads(spaces[name], key)
            look.seen[id(value)] = described(value, are_unread, unread)
    attributes = tuple((name, _attributes(each, look)) for name, each in named)
    around = [*_values(code, look), *_hooks_inside(named, look)]
    if is_watched:
        around += map(_drawn_so_far, (*_GENERATORS, *look.generators))
    inside = tuple((name, type(each), *_hooks(each)) for name, each in named[1:])
    return State(
        autocast,
        torch.get_default_dtype(),
        attributes,
        tuple(around),
        (inside, tuple(map(tuple, _EVERYWHERE))),
        tuple((name, read(module)) for name, read in _DERIVING.items() if name in code.names),
        tensors,
    )


@contextmanager
def in_state(module: Any, state: State) -> Iterator[None]:
    """Within a `with` block, torch is in an `ambient_state` of before, and derives."""
    default_now = torch.get_default_dtype()
    own = dict(module.named_modules())
    before = {
        name: {key: each[1] for key, each in attributes if _is_scalar(each)}
        for name, attributes in state.attributes
        if name in own
    }
    now = {
        name: {key: vars(own[name])[key] for key in keys if key in vars(own[name])}
        for name, keys in before.items()
    }
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        for device, dtype in zip(AUTOCAST_DEVICES, state.autocast, strict=True):
            if dtype is not None or torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, dtype, enabled=dtype is not None))
        torch.set_default_dtype(state.default)
        for name, each in before.items():
            own[name].__dict__.update(each)
        try:
            yield
        finally:
            torch.set_default_dtype(default_now)
            for name, each in now.items():
                own[name].__dict__.update(each)


def traced_alone(
    module: Any, trace: Callable[[], _Traced], end: Callable[[], None] = lambda: None
) -> _Traced:
    """What a trace returns, which runs the module, if it changes nothing around that again.

    After a trace comes its `end`. It may change something once, as where it fills a cache. Raises
    `ShardError` for what each call changes, and for random numbers that are not torch's, which a
    program would repeat.
    """
    for _ in range(2):
        before = ambient_state(module, {}, is_watched=True)
        with _apart():
            found = trace()
        end()
        changed = before.changed(ambient_state(module, {}, is_watched=True))
        there = dict(before.around)
        drawing = [name for name in changed if name in there and name in map(_named, _RANDOM)]
        if not changed:
            return found
        if drawing:
            break
    way = "draw by torch.rand" if drawing else "keep that in an attribute or a buffer"
    raise ShardError(
        f"forward of {type(module).__name__} changes {(drawing or changed)[0]} in each call, which "
        f"a program does not: {way}, or give it as an argument"
    )


@contextmanager
def _apart() -> Iterator[None]:
    """Within a `with` block, what is around a call and changes how torch derives is off.

    In inference mode, torch's batch norm does not tell that it writes its statistics; a checkpoint
    around a call would take what the trace saves for what the call does; anomaly detection reads
    gradients; and `parametrize.cached` keeps parameters that are computed.
    """
    autograd, hooks = torch._C._autograd, list[Any]()
    cached, parametrize._cache = parametrize._cache, {}
    while (each := autograd._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(each)
        autograd._pop_saved_tensors_default_hooks()
    try:
        with torch.autograd.set_detect_anomaly(False), ExitStack() as stack:
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(False))
                stack.enter_context(torch.no_grad())
            yield
    finally:
        parametrize._cache = cached
        for each in reversed(hooks):
            autograd._push_saved_tensors_default_hooks(*each)


def _drawn_so_far(generator: Any) -> tuple[str, str]:
    kind = next(each for each in _RANDOM if isinstance(generator, each))
    return _named(kind), repr(_RANDOM[kind](generator))


def _named(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


def _attributes(module: Any, look: _Look) -> tuple[Any, ...]:
    own = ((key, each) for key, each in vars(module).items() if key not in OF_TORCH)
    found = ((key, look.at(each, look.reads(key))) for key, each in own)
    return tuple((key, each) for key, each in found if each is not _OPAQUE)


@dataclasses.dataclass
class _Look:
    """Describes values by what compares as they do."""

    names: frozenset[str]
    """What the code of the modules reads: of other values, only plain ones are described."""
    seen: dict[int, Any] = dataclasses.field(default_factory=dict)
    alive: list[Any] = dataclasses.field(default_factory=list)
    """What was seen: another value would have its number otherwise."""
    near: frozenset[str] | None = None
    """With packages, all plain values of objects of others, of which no code is read, are seen."""
    generators: list[Any] = dataclasses.field(default_factory=list)
    """Those of random numbers that were seen, which are not torch's."""

    def reads(self, name: str) -> bool:
        """Whether some code may read an attribute of this name."""
        return name in self.names or self.reads_any

    @functools.cached_property
    def reads_any(self) -> bool:
        """Whether names are computed."""
        return "getattr" in self.names

    def at(self, value: Any, is_read: bool = True) -> Any:
        """Plain values, and what consists of them; tensors and other objects where they are."""
        kind = type(value)
        if kind in _COMPARED:
            return (kind, value) if value == value else (kind, "nan")
        number = id(value)
        if number not in self.seen:
            self.seen[number] = _OPAQUE  # of one that is inside of itself
            self.alive.append(value)
            self.seen[number] = self._inside(value, kind, is_read)
        return self.seen[number]

    def _inside(self, value: Any, kind: Any, is_read: bool) -> Any:
        if kind in (list, tuple, dict) or (is_read and isinstance(value, _FILLED)):
            return self._filled(value, kind, is_read)
        if is_read and isinstance(value, Mapping) and not is_of_user(kind):
            return self._pairs(kind, value.items(), is_read)
        if _is_record(value):
            return self._pairs(kind, attributes_of(value).items(), is_read)
        if not is_read or isinstance(value, (torch.nn.Module, ModuleType, type)):
            return _OPAQUE
        if isinstance(value, tuple(_RANDOM)):
            self.generators.append(value)
        if isinstance(value, (torch.Tensor, Enum)):
            return kind, _Same.of(value)
        if isinstance(value, (set, frozenset)):
            return kind, frozenset(self.at(each) for each in value)
        if kind in PARTS:
            return kind, tuple(self.at(getattr(value, each)) for each in PARTS[kind])
        if hasattr(kind, "__next__") and kind.__module__ in _ITERATING:
            return kind, _Same.of(value), self.at(_progress(value))
        return self._of_object(value, kind) if is_of_user(kind) else _OPAQUE

    def _filled(self, value: Any, kind: Any, is_read: bool) -> Any:
        """As Python's own class has it: the user's may load what it has not yet, or raise."""
        items = next(each for each in _FILLED if isinstance(value, each)).__iter__(value)
        if isinstance(value, dict):
            pairs = ((key, dict.__getitem__(value, key)) for key in items)
            return self._pairs(kind, pairs, is_read)
        inside = tuple(self.at(each, is_read) for each in items)
        return _OPAQUE if _OPAQUE in inside and not is_read else (kind, inside)

    def _of_object(self, value: Any, kind: Any) -> Any:
        own = attributes_of(value).items()
        if self.near is not None and is_of_others(value, self.near):
            if isinstance(value, threading.Thread):  # it changes beside a trace
                return _OPAQUE
            return self._pairs(kind, own, is_read=False)
        return self._pairs(kind, (each for each in own if each[0] in self.names), is_read=True)

    def _pairs(self, kind: Any, items: Iterable[tuple[Any, Any]], is_read: bool) -> Any:
        pairs = ((key, self.at(each, is_read)) for key, each in items)
        found = tuple((key, each) for key, each in pairs if each is not _OPAQUE)
        return (kind, found) if found else _OPAQUE


def _is_record(value: Any) -> bool:
    """Whether it is a configuration, as those of transformers, which can be written as a dict."""
    if isinstance(value, type):
        return False
    is_record = isinstance(value, RECORDS) or dataclasses.is_dataclass(value)
    return is_record or (hasattr(value, "to_dict") and not isinstance(value, torch.nn.Module))


def _progress(iterator: Any) -> Any:
    """How far one of Python's own, or a generator, has come."""
    if isinstance(iterator, GeneratorType):
        frame = iterator.gi_frame
        return frame and (frame.f_lasti, dict(frame.f_locals))
    try:
        return iterator.__reduce__()[1:]
    except TypeError:
        return repr(iterator)


@dataclasses.dataclass(frozen=True, eq=False)
class _Same:
    """An object that is equal to nothing but itself; a tensor, as long as nobody writes to it."""

    number: int
    version: int
    own: Any

    @classmethod
    def of(cls, value: Any) -> _Same:
        is_counted = isinstance(value, torch.Tensor) and not value.is_inference()
        own: Any = functools.partial(_itself, value)
        with suppress(TypeError):
            own = weakref.ref(value)
        return cls(id(value), value._version if is_counted else 0, own)

    def __hash__(self) -> int:
        return hash((self.number, self.version))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same) or self.version != other.version:
            return False
        value = self.own()
        return value is not None and value is other.own()


def _itself(value: Any) -> Any:
    return value


def _values(code: Code, look: _Look) -> Iterator[Any]:
    """What is around modules now."""
    for name, value in code.now():
        found = look.at(value)
        yield name, (_Same.of(value) if found is _OPAQUE else found)
    for function in code.defaults:
        name = f"an argument of {function.__qualname__}"
        yield name, (look.at(function.__defaults__), look.at(function.__kwdefaults__))


def _hooks_inside(named: Iterable[tuple[str, Any]], look: _Look) -> Iterator[Any]:
    """What hooks are methods of, or hold, of the modules inside of the first."""
    for name, each in named:
        for kind in HOOKS if name else ():
            yield from ((kind, look.at(hook)) for hook in vars(each)[kind].values())


def _is_scalar(described: Any) -> bool:
    return isinstance(described[1], described[0]) and described[0] in _PLAIN


def _hooks(module: Any) -> tuple[Any, ...]:
    """The numbers that torch gives to hooks."""
    return tuple(tuple(getattr(module, kind)) for kind in HOOKS)
