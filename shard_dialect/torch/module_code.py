"""What the code of a module reads, and where it may leave something.

It is found by names: those in `forward` of its modules, in hooks, and in all functions of the
user's that these call, also as methods of objects that they reach. It may be more than a call does.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch

from shard_dialect.torch.graph.kept_values import AROUND, MODULES, OF_TORCH, Names, Spaces
from shard_dialect.torch.graph.tensor_trees import COLLECTIONS

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
RECORDS = (SimpleNamespace, argparse.Namespace)
PARTS = {
    MethodType: ("__func__", "__self__"),
    functools.partial: ("func", "args", "keywords"),
    slice: ("start", "stop", "step"),
}
_LIBRARIES = ("torch", "numpy", "shard_dialect")
_HOLDING = (*COLLECTIONS, tuple)
_SPECIAL = ("__call__", "__setitem__", "__getitem__", "__iadd__", "__enter__", "__exit__")
"""Methods that are called by no name."""


@dataclass(frozen=True)
class Code:
    """What `forward` of modules, and hooks, read."""

    names: frozenset[str]
    """Of globals and attributes."""
    places: tuple[tuple[Any, str], ...]
    """The globals, the attributes of classes, and the cells of functions around, with names."""
    near: frozenset[str]
    """The packages of modules, hooks and what they hold: of objects of others no code is read."""

    def now(self) -> Iterator[tuple[str, Any]]:
        """The values that are there, with their names."""
        for space, key in self.places:
            with suppress(KeyError, ValueError):  # that was deleted, or is not set yet
                if isinstance(space, CellType):
                    yield key, space.cell_contents
                else:
                    yield key, (vars(space) if isinstance(space, type) else space)[key]


@dataclass
class _Reading:
    """Reads the code of functions, and of methods of the types of modules and objects."""

    kinds: dict[type, None]
    near: frozenset[str]
    waiting: list[Any]
    """What is to be looked at: functions are read, and of other objects what is inside."""
    names: set[str] = field(default_factory=lambda: {"forward"})
    places: dict[tuple[int, str], tuple[Any, str]] = field(default_factory=dict)
    met: dict[int, Any] = field(default_factory=dict)

    def code(self) -> Code:
        """All that is read."""
        kinds = [each for kind in self.kinds for each in kind.__mro__ if is_of_user(each)]
        while self.waiting:
            each = self.waiting.pop()
            if id(each) in self.met:
                continue
            self.met[id(each)] = each
            if type(each) is FunctionType and is_of_user(each):
                self._read(each)
            is_object = _is_recorder(each)
            if is_object and not _is_near(each, self.near):
                continue
            self.waiting += _inside_of(each)
            if is_object and type(each) not in self.kinds:
                self.kinds[type(each)] = None
                names = (*self.names, *_SPECIAL)
                self.waiting += [one for name in names for one in _called(type(each), name)]
        for kind in kinds:
            own = self.names & set(vars(kind))
            self.places |= {(id(kind), key): (kind, key) for key in own}
        return Code(frozenset(self.names), tuple(self.places.values()), self.near)

    def _read(self, function: Any) -> None:
        own = _names(function.__code__)
        self.names |= own
        spaces = [function.__globals__]
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            self.places[id(cell), name] = cell, name
            with suppress(ValueError):
                self.waiting.append(cell.cell_contents)
                spaces += _space(cell.cell_contents)
        self.waiting += [
            each for kind in self.kinds for name in own for each in _called(kind, name)
        ]
        while spaces:
            space = spaces.pop()
            for name in own:
                if name in space and (id(space), name) not in self.places:
                    self.places[id(space), name] = space, name
                    self.waiting.append(space[name])
                    spaces += _space(space[name])


Codes = dict[Any, Code]
"""What was found in a module's code, by the types and functions in it: of the latest call."""


def code_of(modules: Iterable[Any], codes: Codes) -> Code:
    """Of modules, of which the first has the others."""
    kinds: dict[Any, None] = {}
    functions: dict[Any, None] = {}
    owners: dict[int, Any] = {}
    for number, each in enumerate(modules):
        kinds[type(each)] = None
        # a call runs the hooks of the whole module around its program
        for _, value in _held(each, is_inside=bool(number)):
            for part in (value, *(_inside_of(value) if type(value) in PARTS else ())):
                if type(part) is FunctionType:
                    functions[part] = None
                elif _is_recorder(part):
                    owners[id(part)] = part
    key = tuple(kinds), tuple(functions), tuple(owners)
    if key not in codes:
        codes.clear()  # functions around which there are tensors, as hooks, are kept no longer
        waiting = [one for kind in kinds for one in _called(kind, "forward")]
        held = [*kinds, *functions, *map(type, owners.values())]
        near = frozenset(_package(each) for each in held if is_of_user(each))
        codes[key] = _Reading(kinds, near, [*waiting, *functions, *owners.values()]).code()
    return codes[key]


@dataclass
class _Finding:
    """Finds spaces in what modules, hooks and variables hold."""

    code: Code
    found: dict[str, Any]
    known: set[int] = field(default_factory=set)

    def add(self, name: str, space: Any, names: frozenset[str]) -> None:
        """Several of one name have numbers behind it."""
        number = sum(each.partition("#")[0] == name for each in self.found)
        self.found[f"{name}#{number}" if number else name] = Names(space, names)

    def look(self, value: Any, path: str, is_place: bool = True) -> None:
        """Add what is inside; lists and dicts that are at no place are spaces of their own."""
        is_object, is_filled = _is_recorder(value), type(value) in COLLECTIONS
        if is_object and not _is_near(value, self.code.near):
            return
        inside = _inside_of(value)
        if id(value) in self.known or not (inside or is_object or is_filled):
            return
        self.known.add(id(value))
        if is_object:
            self.add(f"{AROUND}{path}", vars(value), self.code.names)
        elif is_filled and not is_place:
            self.add(AROUND, {path: value}, frozenset((path,)))
        is_place = is_object or is_filled or (type(value) is tuple and is_place)
        for number, each in enumerate(inside):
            self.look(each, f"{path}.{number}", is_place)


def spaces_of(module: Any, codes: Codes) -> Spaces:
    """Where a call may leave something: in modules, in what they hold, and around them."""
    named = dict(module.named_modules())
    code = code_of(named.values(), codes)
    found: dict[str, Any] = {name: vars(each) for name, each in named.items()}
    finding = _Finding(code, {**found, MODULES: named})
    for space, key in code.places:
        finding.add(AROUND, space, frozenset((key,)))
    for key, value in code.now():
        finding.look(value, key)
    for name, each in named.items():
        for key, value in _held(each, is_inside=bool(name)):
            finding.look(value, f"{name}.{key}")
    return finding.found


def _held(module: Any, is_inside: bool) -> Iterator[tuple[str, Any]]:
    """The attributes of a module, and the hooks that run inside of a call."""
    own = vars(module)
    yield from ((key, each) for key, each in own.items() if key not in OF_TORCH)
    for kind in HOOKS if is_inside else ():
        yield from ((kind, each) for each in own[kind].values())


def shared_by_hooks(module: Any) -> list[Any]:
    """What hooks hold that is no module, as a list: a copy of the module has the same."""
    found, waiting = (
        [],
        [hook for each in module.modules() for kind in HOOKS for hook in vars(each)[kind].values()],
    )
    while waiting:
        value = waiting.pop()
        if type(value) in PARTS:
            waiting += _inside_of(value)
        elif type(value) is tuple:
            waiting += value
        elif not isinstance(value, (torch.nn.Module, torch.Tensor)):
            found.append(value)
    return found


def _inside_of(value: Any) -> list[Any]:
    """What is in a collection, or in the attributes of an object of the user's."""
    if type(value) in PARTS:
        return [getattr(value, each) for each in PARTS[type(value)]]
    if type(value) is FunctionType:
        return [value.__defaults__, value.__kwdefaults__]
    if isinstance(value, dict) and type(value) in _HOLDING:
        return list(value.values())
    if type(value) in _HOLDING:
        return list(value)
    return list(vars(value).values()) if _is_recorder(value) else []


def _is_recorder(value: Any) -> bool:
    """Whether it is an object of the user's that may keep something in its attributes."""
    if isinstance(value, (torch.nn.Module, type, ModuleType, FunctionType)):
        return False
    if hasattr(value, "to_dict") or not hasattr(value, "__dict__"):
        return False
    return is_of_user(type(value)) or isinstance(value, RECORDS)


def _is_near(value: Any, packages: frozenset[str]) -> bool:
    return isinstance(value, RECORDS) or _package(type(value)) in packages


def _called(kind: type, name: str) -> Iterator[Any]:
    """The functions that are methods of this name, or properties."""
    for each in kind.__mro__:
        if name in vars(each):
            value = vars(each)[name]
            yield getattr(value, "__func__", getattr(value, "fget", value))


def _space(value: Any) -> list[Any]:
    """The names in a module or a class of the user's."""
    is_space = isinstance(value, (type, ModuleType)) and is_of_user(value)
    return [vars(value)] if is_space else []


def _package(value: Any) -> str:
    """That of a module, a class or a function."""
    is_module = isinstance(value, ModuleType)
    return str(value.__name__ if is_module else value.__module__).partition(".")[0]


def is_of_user(value: Any) -> bool:
    """Whether it is neither Python's, torch's nor ours."""
    top = _package(value)
    return top not in _LIBRARIES and top not in sys.stdlib_module_names - {"__main__"}


@functools.cache
def _names(code: CodeType) -> frozenset[str]:
    """Of globals and attributes, in a function and in those inside of it."""
    inside = (_names(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(code.co_names).union(*inside)
