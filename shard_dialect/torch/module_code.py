"""What the code of a module reads, and where it may leave something.

It is found by names: those in `forward` of its modules, in hooks, and in all functions of the
user's that these call, also as methods of objects that they reach. It may be more than a call does.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch

from shard_dialect.torch.graph.kept_values import (
    AROUND,
    CONSTANTS,
    HOOKS,
    MODULES,
    OF_TORCH,
    Names,
    Spaces,
)
from shard_dialect.torch.graph.tensor_trees import COLLECTIONS
from shard_dialect.torch.name_uses import Use, only_adds, reads_items, uses_in

RECORDS = (SimpleNamespace, argparse.Namespace)
PARTS = {
    MethodType: ("__func__", "__self__"),
    functools.partial: ("func", "args", "keywords"),
    slice: ("start", "stop", "step"),
    type(functools.cache(len)): ("__wrapped__",),
}
_LIBRARIES = ("torch", "numpy", "shard_dialect")
_HOLDING = (*COLLECTIONS, tuple)
_BY_OTHERS = (
    *("repr", "str", "reduce", "reduce_ex", "getstate", "setstate", "deepcopy", "del"),
    *("init_subclass", "set_name"),
)
"""Of special methods, which are called by no name, those that code in a call does not need.

The last ones make classes: from there, a mixin of a hub reaches all that loads models.
"""


_MAKING = frozenset(("__init__", "__new__"))
_ALL_NAMES = ("eval", "exec", "locals", "f_locals", "__closure__", "cell_contents")
_OF_GLOBALS = ("globals", "f_globals", "__globals__", "sys", "import_module", "__import__")
_OF_OBJECTS = ("getattr", "vars", "__dict__", "__getattribute__", "attrgetter", "asdict", "astuple")
"""Ways to read by a name that is computed: of all variables, of globals, and of objects."""


@dataclass(frozen=True)
class Code:
    """What `forward` of modules, and hooks, read."""

    names: frozenset[str]
    """Of globals and attributes."""
    places: tuple[tuple[Any, str], ...]
    """The globals, the attributes of classes, and the cells of functions around, with names."""
    near: frozenset[str]
    """The packages of modules, hooks and what they hold: of objects of others no code is read."""
    uses: Mapping[str, frozenset[Use]]
    """What the code does with the values of names."""
    globals_: frozenset[int]
    """The identities of those dicts of globals that code reads by no attribute of a module."""
    defaults: tuple[Any, ...]
    """Functions that have collections, or objects, as the defaults of arguments."""
    has_others: bool
    """Whether there are objects of which no code is read."""

    def unread(self, spaces: Spaces) -> list[Any]:
        """The lists of which no code reads what they have, but only adds to them; and such dicts.

        Of a dict it may ask for keys.
        """
        found: dict[int, tuple[Any, bool]] = {}
        for name, space in {} if self.has_others else spaces.items():
            for key in [] if name == MODULES else list(space):
                is_named, uses = self._is_named(space, key), self.uses.get(key, ())
                for value, depth in _collections_in(space[key]):
                    is_unread = is_named and depth is not None and only_adds(uses, depth)
                    if isinstance(value, dict):
                        is_unread = is_named and not reads_items(uses)
                    _, others = found.get(id(value), (value, True))
                    found[id(value)] = value, is_unread and others
        return [value for value, is_unread in found.values() if is_unread]

    def reads(self, space: Any, key: str) -> bool:
        """Whether code may read the value itself that is there, or what is in it."""
        is_certain = self._is_named(space, key) and not self.has_others
        return not is_certain or reads_items(self.uses.get(key, ()))

    def _is_named(self, space: Any, key: str) -> bool:
        """Whether code reads that by its name only; names with dots are of no code."""
        return "." not in key and not self._is_read_otherwise(space)

    def _is_read_otherwise(self, space: Any) -> bool:
        """Whether code may read it by names that are no names in code."""
        own = space.space if isinstance(space, Names) else space
        if isinstance(own, CellType):
            return not self.names.isdisjoint(_ALL_NAMES)
        ways = _OF_GLOBALS if id(own) in self.globals_ else _OF_OBJECTS
        return not self.names.isdisjoint((*_ALL_NAMES, *ways))

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
    globals_: set[int] = field(default_factory=set)
    modules: set[int] = field(default_factory=set)
    uses: dict[str, frozenset[Use]] = field(default_factory=dict)
    defaults: list[Any] = field(default_factory=list)
    has_others: bool = False
    registered: frozenset[type] = frozenset()
    """The types of modules, which no call makes, though `super().__init__()` of others is read."""

    def code(self) -> Code:
        """All that is read."""
        self.registered = frozenset(self.kinds)
        for kind in self.kinds:
            self._read_special(kind, ("init", "new"))
        while self.waiting:
            each = self.waiting.pop()
            if id(each) in self.met:
                continue
            self.met[id(each)] = each
            if type(each) is FunctionType and is_of_user(each):
                self._read(each)
            is_object = _is_object(each)
            if is_of_others(each, self.near):
                self.has_others = True
                continue
            self.waiting += inside_of(each)
            is_class = isinstance(each, type) and _package(each) in self.near
            kind = each if is_class else type(each)
            if (is_object or is_class) and kind not in self.kinds:
                self.kinds[kind] = None
                self.waiting += [one for name in self.names for one in _called(kind, name)]
                self._read_special(kind)
        for kind in dict.fromkeys(each for own in self.kinds for each in _of_user(own)):
            own = self.names & set(vars(kind))
            self.places |= {(id(kind), key): (kind, key) for key in own}
        return Code(
            frozenset(self.names),
            tuple(self.places.values()),
            self.near,
            self.uses,
            frozenset(self.globals_ - self.modules),
            tuple(self.defaults),
            self.has_others,
        )

    def _read_special(self, kind: type, others: Sequence[str] = ()) -> None:
        """Methods of the user's that are called by no name, without some."""
        without = {f"__{each}__" for each in (*_BY_OTHERS, *others)}
        names = {name for each in _of_user(kind) for name in vars(each) if name.startswith("__")}
        self.waiting += [one for name in names - without for one in _called(kind, name)]

    def _read(self, function: Any) -> None:
        values = (each for part in inside_of(function) for each in inside_of(part))
        if any(type(each) in _HOLDING or _is_object(each) for each in values):
            self.defaults.append(function)
        own = _names(function.__code__)
        self.names |= own
        for name, uses in uses_in(function.__code__).items():
            self.uses[name] = self.uses.get(name, frozenset()) | uses
        spaces = [function.__globals__]
        self.globals_.add(id(function.__globals__))
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            self.places[id(cell), name] = cell, name
            with suppress(ValueError):
                self.waiting.append(cell.cell_contents)
                spaces += self._space(cell.cell_contents)
        for kind in self.kinds:
            called = own - _MAKING if kind in self.registered else own
            self.waiting += [each for name in called for each in _called(kind, name)]
        while spaces:
            space = spaces.pop()
            for name in own:
                if name in space and (id(space), name) not in self.places:
                    self.places[id(space), name] = space, name
                    self.waiting.append(space[name])
                    spaces += self._space(space[name])

    def _space(self, value: Any) -> list[Any]:
        """The names in a module or a class of the user's."""
        if not isinstance(value, (type, ModuleType)) or not is_of_user(value):
            return []
        if isinstance(value, ModuleType):
            self.modules.add(id(vars(value)))
        return [vars(value)]


Codes = dict[Any, Code]
"""What was found in a module's code, by the types and functions that it reads, of the latest call.

Functions may be exchanged for others, which read something else.
"""


def code_of(modules: Iterable[Any], codes: Codes) -> Code:
    """Of modules, of which the first has the others."""
    held: list[Any] = []
    kinds: dict[type, None] = {}
    for number, each in enumerate(modules):
        kinds[type(each)] = None
        # a call runs the hooks of the whole module around its program
        held += [value for _, value in held_by(each, is_inside=bool(number))]
    own_classes = [one for kind in kinds for one in _of_user(kind)]  # ours is made of the user's
    classes = tuple((one, len(vars(one))) for one in own_classes)
    for (own, parts), code in codes.items():
        values = (value for _, value in code.now())
        if own == classes and parts == _parts_in((*held, *values), code.near):
            return code
    codes.clear()  # functions around which there are tensors, as hooks, are kept no longer
    functions, types = _parts_in(held, frozenset())
    near = (*own_classes, *types, *(each for each in functions if isinstance(each, FunctionType)))
    forward = [one for kind in kinds for one in _called(kind, "forward")]
    packages = frozenset(_package(each) for each in near if is_of_user(each))
    found = _Reading(kinds.copy(), packages, [*forward, *held]).code()
    values = (value for _, value in found.now())
    codes[classes, _parts_in((*held, *values), packages)] = found
    return found


def _parts_in(values: Iterable[Any], near: frozenset[str]) -> tuple[frozenset[Any], frozenset[Any]]:
    """The functions, classes and modules in these, and the types of objects, that have code."""
    functions, types = set(), set()
    waiting, known = list(values), set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, (*CONSTANTS, torch.Tensor)) or id(value) in known:
            continue
        known.add(id(value))
        if isinstance(value, (FunctionType, type, ModuleType)):
            functions.add(value)
        elif _is_object(value):
            types.add(type(value))
            if not _is_near(value, near):
                continue
        waiting += inside_of(value)
    return frozenset(functions), frozenset(types)


@dataclass
class _Finding:
    """Finds spaces in what modules, hooks and variables hold."""

    code: Code
    found: dict[str, Any]
    known: set[int] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, space: Any, names: frozenset[str]) -> None:
        """Several of one name have numbers behind it."""
        number = self.numbers[name] = self.numbers.get(name, -1) + 1
        self.found[f"{name}#{number}" if number else name] = Names(space, names)

    def look(self, value: Any, path: str, is_place: bool = True) -> None:
        """Add what is inside; lists and dicts that are at no place are spaces of their own."""
        is_object, is_filled = _is_recorder(value), type(value) in COLLECTIONS
        if is_of_others(value, self.code.near):
            return
        if is_filled and not is_place:
            self.add(AROUND, {path: value}, frozenset((path,)))
        inside = inside_of(value)
        if id(value) in self.known or not (inside or is_object or is_filled):
            return
        self.known.add(id(value))
        if is_object:
            self.add(f"{AROUND}{path}", vars(value), self.code.names)
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
    for function in code.defaults:
        finding.look(function, function.__qualname__)
    for key, value in code.now():
        finding.look(value, key)
    for name, each in named.items():
        for key, value in held_by(each, is_inside=bool(name)):
            finding.look(value, f"{name}.{key}")
    return finding.found


def held_by(module: Any, is_inside: bool) -> Iterator[tuple[str, Any]]:
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
            waiting += inside_of(value)
        elif type(value) is tuple:
            waiting += value
        elif not isinstance(value, (torch.nn.Module, torch.Tensor)):
            found.append(value)
    return found


def inside_of(value: Any) -> list[Any]:
    """What is in a collection, or in the attributes of an object of the user's."""
    if type(value) in PARTS:
        return [getattr(value, each) for each in PARTS[type(value)]]
    if type(value) is FunctionType:
        return [value.__defaults__, value.__kwdefaults__]
    if isinstance(value, dict) and type(value) in _HOLDING:
        return list(value.values())
    if type(value) in _HOLDING:
        return list(value)
    return list(attributes_of(value).values()) if _is_object(value) else []


def _is_recorder(value: Any) -> bool:
    """Whether it is an object of the user's that may keep something in its attributes."""
    return hasattr(value, "__dict__") and _is_object(value)


def _is_object(value: Any) -> bool:
    """Whether it is an object of the user's, and no configuration, as of transformers."""
    if isinstance(value, (torch.nn.Module, type, ModuleType, FunctionType)):
        return False
    if hasattr(value, "to_dict"):
        return False
    return is_of_user(type(value)) or isinstance(value, RECORDS)


def attributes_of(value: Any) -> dict[str, Any]:
    """Those of an object, also in slots."""
    slots = (each for kind in type(value).__mro__ for each in _slots(kind))
    own = {each: getattr(value, each) for each in slots if hasattr(value, each)}
    return {**own, **getattr(value, "__dict__", {})}


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(each for each in names if not each.startswith("__"))


def is_of_others(value: Any, near: frozenset[str]) -> bool:
    """Whether it is an object of which no code is read."""
    return is_of_user(type(value)) and _is_object(value) and not _is_near(value, near)


def _is_near(value: Any, packages: frozenset[str]) -> bool:
    return isinstance(value, RECORDS) or _package(type(value)) in packages


def _called(kind: type, name: str) -> Iterator[Any]:
    """The functions that are methods of this name, or properties."""
    for each in kind.__mro__:
        if name in vars(each):
            value = vars(each)[name]
            for part in ("__func__", "fget", "func", "__wrapped__"):
                value = getattr(value, part, value)
            yield value


def _collections_in(value: Any) -> Iterator[tuple[Any, int | None]]:
    """The lists and dicts in one, and of how many dicts each is an item, if of nothing else."""
    known: set[int] = set()
    waiting: list[tuple[Any, int | None]] = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if type(each) not in _HOLDING or id(each) in known:
            continue
        known.add(id(each))
        is_dict = isinstance(each, dict)
        if type(each) is not tuple:
            yield each, depth
        below = depth + 1 if is_dict and depth is not None else None
        waiting += [(one, below) for one in (each.values() if is_dict else each)]


def _of_user(kind: type) -> list[type]:
    """A class, and those it is made of, without those of libraries."""
    return [each for each in kind.__mro__ if is_of_user(each)]


def _package(value: Any) -> str:
    """That of a module, a class or a function."""
    is_module = isinstance(value, ModuleType)
    return str(value.__name__ if is_module else value.__module__).partition(".")[0]


def is_of_user(value: Any) -> bool:
    """Whether it is neither Python's, torch's nor ours."""
    tops = [_package(value)]
    if isinstance(value, FunctionType):  # one may be wrapped as another
        tops.append(str(value.__globals__.get("__name__", tops[0])).partition(".")[0])
    names = sys.stdlib_module_names - {"__main__"}
    return any(each not in _LIBRARIES and each not in names for each in tops)


@functools.cache
def _names(code: CodeType) -> frozenset[str]:
    """Of globals and attributes, in a function and in those inside of it."""
    inside = (_names(each) for each in code.co_consts if isinstance(each, CodeType))
    is_asked = "getattr" in code.co_names
    asked = [each for each in code.co_consts if isinstance(each, str)] if is_asked else []
    return frozenset((*code.co_names, *asked)).union(*inside)
