"""What a call of a module leaves behind, beside its results and its state.

It is in *spaces*: the attributes of modules and of other objects, globals, and variables that
functions share. A trace puts all of them back, and a call of the program sets them again.

    self.penalty = y.mean()          penalty: y.mean()
    features["y"].append(y)          features: {"y": [..., y]}, in the dict and list that are there
    self.last, self.y = self.y, y    last: what was y before, y: y
"""

from __future__ import annotations

import copy
import functools
import gc
import hashlib
import operator
from collections import deque
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import CellType
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from shard_dialect.torch.graph.complex_parts import as_real
from shard_dialect.torch.graph.exchanged import exchanged
from shard_dialect.torch.graph.tensor_trees import (
    COLLECTIONS,
    has_derivative,
    holds_tensors,
    know_records,
)

OF_TORCH = frozenset(vars(torch.nn.Module())) - {"training"}
"""What each module has: its tensors, modules and hooks, which are looked at by themselves."""
_RESTORED = OF_TORCH - {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
AROUND = "around:"
"""Before the names of spaces that are not those of modules."""
CONSTANTS = (
    *(bool, int, float, complex, str, bytes, type(None)),
    *(torch.dtype, torch.device, torch.Size),
)
MODULES = f"{AROUND}modules"
"""The name of what has the modules themselves."""

Place = tuple[str, str]
"""The names of a space, and of a value in it."""
Spaces = Mapping[str, MutableMapping[str, Any]]
"""Those of modules have their names."""


class Names(MutableMapping[str, Any]):
    """Some of the names in a dict, in a class, or the one in a cell."""

    def __init__(self, space: Any, names: frozenset[str]) -> None:
        self.space, self._names = space, names

    @property
    def _table(self) -> Mapping[str, Any]:
        if isinstance(self.space, CellType):
            try:
                return dict.fromkeys(self._names, self.space.cell_contents)
            except ValueError:  # is not set yet
                return {}
        return vars(self.space) if isinstance(self.space, type) else self.space

    def __getitem__(self, key: str) -> Any:
        if key not in self._names:
            raise KeyError(key)
        return self._table[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if isinstance(self.space, CellType):
            self.space.cell_contents = value
        elif isinstance(self.space, type):
            type.__setattr__(self.space, key, value)
        else:
            self.space[key] = value

    def __delitem__(self, key: str) -> None:
        if isinstance(self.space, CellType):
            del self.space.cell_contents
        elif isinstance(self.space, type):
            type.__delattr__(self.space, key)
        else:
            del self.space[key]

    def __iter__(self) -> Iterator[str]:
        return (key for key in list(self._table) if key in self._names)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Before:
    """What is at a place, or in collections there, as a call begins; or a module.

    It is no dataclass, since it is a leaf of trees.
    """

    def __init__(self, path: tuple[Any, ...]) -> None:
        self.path = path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Before) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __str__(self) -> str:
        return ".".join(map(str, self.path[1:]))

    def now(self, spaces: Spaces) -> Any:
        """What it is for a call that ends."""
        found: Any = spaces
        for key in self.path:
            found = found[key]
        return found


class Constant:
    """A tensor that a call leaves, the same in each: later ones may read it as one of the user's.

    It is no dataclass, since it is a leaf of trees.
    """

    def __init__(self, tensor: Any) -> None:
        with _disable_current_modes():
            self.tensor = tensor.clone()
            elements = as_real(self.tensor).contiguous().view(-1).view(torch.uint8).numpy()
        self.key = tensor.dtype, tensor.shape, hashlib.sha256(elements.tobytes()).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __deepcopy__(self, memo: dict[int, Any]) -> Constant:
        return self


class Constants:
    """The constants that calls of one module leave.

    Each is one tensor, so that one state of the module comes again with it, until somebody has
    written to that.
    """

    def __init__(self) -> None:
        self._given: dict[Constant, tuple[Any, int]] = {}

    def tensors_in(self, tree: Any) -> Any:
        """The tree with tensors in the places of constants."""
        return pytree.tree_map(
            lambda each: self._tensor(each) if isinstance(each, Constant) else each, tree
        )

    def _tensor(self, constant: Constant) -> Any:
        tensor, version = self._given.get(constant, (None, 0))
        if tensor is None or tensor._version != version:
            tensor = constant.tensor.clone()
            self._given[constant] = tensor, tensor._version
        return tensor


@dataclass
class Filled:
    """What a call does to a list or a dict that was there."""

    changed: dict[Any, Any]
    """By key or number."""
    added: list[Any]
    """Behind the items of a list."""
    is_new: bool
    """Whether it has other items than these no more."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.is_new)

    def put(self, collection: Any, spaces: Spaces) -> None:
        """Do the same to it."""
        if self.is_new:
            collection.clear()
        for key, each in self.changed.items():
            key = key.now(spaces) if isinstance(key, Before) else key
            if isinstance(each, Filled):
                each.put(collection[key], spaces)
            else:
                collection[key] = each
        if self.added:
            collection.extend(self.added)


def _flat(filled: Filled) -> tuple[list[tuple[Any, Any]], Any]:
    keyed = [*filled.changed.items(), *enumerate(filled.added)]
    pairs = [(pytree.MappingKey(key), each) for key, each in keyed]
    return pairs, (tuple(filled.changed), filled.is_new)


def _filled(values: Iterable[Any], context: Any) -> Filled:
    keys, is_new = context
    items = list(values)
    return Filled(dict(zip(keys, items, strict=False)), items[len(keys) :], is_new)


pytree.register_pytree_node(
    Filled,
    lambda each: ([value for _, value in _flat(each)[0]], _flat(each)[1]),
    _filled,
    flatten_with_keys_fn=_flat,
    serialized_type_name="shard_dialect.Filled",
)


class AsNumbers(np.lib.mixins.NDArrayOperatorsMixin):
    """What `numpy()`, `item()` or `tolist()` of a tensor of floats is in a trace.

    Of a result of a program, it is what they say. Before, nothing can be computed with it, but a
    single number can be compared, as in torch, with one of Python: its elements decide.
    """

    def __init__(self, tensor: Any, way: str) -> None:
        self.tensor, self.way, self.shape = tensor, way, tuple(tensor.shape)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise ReadByPythonError(f"something computes with {self.way}() of a tensor")

    __array_ufunc__ = __getitem__ = __iter__ = __float__ = __int__ = __array__
    __round__ = __format__ = __len__ = __array__

    @property
    def _number(self) -> Any:
        """A tensor of Python's number, if it is a single one."""
        is_single = self.way == "item" or (self.way == "tolist" and not self.shape)
        is_ordered = is_single and not self.tensor.is_complex()
        return self.tensor.double() if is_ordered else self.__array__()

    def _decided(self, compare: Callable[[Any, Any], Any], other: Any) -> bool:
        other = other._number if isinstance(other, AsNumbers) else other
        is_known = isinstance(other, (int, float, torch.Tensor))
        return bool(compare(self._number, other)) if is_known else NotImplemented

    def __bool__(self) -> bool:
        return self._decided(operator.ne, 0)

    def __eq__(self, other: object) -> bool:
        return self._decided(operator.eq, other)

    def __ne__(self, other: object) -> bool:
        return self._decided(operator.ne, other)

    def __lt__(self, other: Any) -> bool:
        return self._decided(operator.lt, other)

    def __le__(self, other: Any) -> bool:
        return self._decided(operator.le, other)

    def __gt__(self, other: Any) -> bool:
        return self._decided(operator.gt, other)

    def __ge__(self, other: Any) -> bool:
        return self._decided(operator.ge, other)

    __hash__ = None  # type: ignore[assignment]


class ReadByPythonError(TypeError):
    """Elements of a tensor are read where they are not known."""


def numbers_in_traces() -> AbstractContextManager[None]:
    """Within a `with` block, elements of tensors may be left as numbers and arrays."""

    def read(way: str, own: Any) -> Any:
        def method(self: Any, **kwargs: Any) -> Any:
            is_known = not isinstance(self, FakeTensor) or self.constant is not None
            if is_known or (way != "numpy" and not has_derivative(self)):
                return own(self, **kwargs)
            return AsNumbers(self.detach() if kwargs.get("force") or way != "numpy" else self, way)

        return method

    ways = ("numpy", "item", "tolist")
    return exchanged(torch.Tensor, **{way: read(way, getattr(torch.Tensor, way)) for way in ways})


def _numbers(values: Iterable[Any], way: str) -> Any:
    (tensor,) = values
    is_tensor = isinstance(tensor, torch.Tensor) and not isinstance(tensor, FakeTensor)
    if not is_tensor or tensor.is_meta:
        return AsNumbers(tensor, way) if hasattr(tensor, "shape") else tensor
    whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return getattr(whole.detach(), way)()


pytree.register_pytree_node(
    AsNumbers,
    lambda each: ([each.tensor], each.way),
    _numbers,
    flatten_with_keys_fn=lambda each: ([(pytree.GetAttrKey(each.way), each.tensor)], each.way),
    serialized_type_name="shard_dialect.AsNumbers",
)


class Snapshot:
    """The spaces as a call begins."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces
        self._own = {name: dict(space) for name, space in spaces.items() if name != MODULES}
        self._paths: dict[int, tuple[Any, ...]] = {}
        self._contents: dict[int, tuple[Any, Any]] = {}
        for name, each in spaces.get(MODULES, {}).items():
            self._paths[id(each)] = MODULES, name
        for name, space in self._own.items():
            for key, value in space.items():
                if key not in _RESTORED:
                    self._walk(value, (name, key))

    def _walk(self, value: Any, path: tuple[Any, ...]) -> None:
        if id(value) in self._paths or _is_constant(value):
            return
        self._paths[id(value)] = path
        if type(value) in COLLECTIONS:
            self._contents[id(value)] = value, copy.copy(value)
        for key, each in _items(value):
            self._walk(each, (*path, key))

    def items_of(self, value: Any) -> Any:
        """What a list or a dict had; of another one, nothing."""
        return self._contents[id(value)][1] if id(value) in self._contents else None

    def changes(self) -> dict[Place, Any]:
        """By place, what is another value now: a tree of tensors, constants, and what was there."""
        found = {}
        self._told: set[int] = set()
        for (name, key), value in values_of(self._spaces):
            own = self._own[name]
            each = self._described(value)
            is_same = key in own and own[key] is value and not isinstance(each, Filled)
            is_equal = key in own and _is_constant(value) and _is_equal(own[key], value)
            if not is_same and not is_equal:
                found[name, key] = each
        return found

    def _described(self, value: Any) -> Any:
        path = self._paths.get(id(value))
        if path is not None:
            is_told, filled = id(value) in self._told, None
            self._told.add(id(value))
            if not is_told:  # what is at several places is changed once
                filled = self._filled(value)
            return filled or Before(path)
        know_records(value)
        return pytree.tree_map(
            lambda each: self._described(each) if id(each) in self._paths else each,
            value,
            is_leaf=lambda each: id(each) in self._paths,
        )

    def _filled(self, value: Any) -> Filled | None:
        """What has been done to a list or a dict that was there, if something was."""
        old = self.items_of(value)
        if old is None:
            return None
        items, before = dict(_items(value)), dict(_items(old))
        is_new = any(key not in items for key in before)
        if not isinstance(value, dict):
            is_new |= any(items[key] is not each for key, each in before.items() if key in items)
        kept = {} if is_new else before
        found = Filled({}, [], is_new)
        for key, each in items.items():
            one = self._described(each)
            if key in kept and kept[key] is each and not isinstance(one, Filled):
                continue
            if isinstance(value, dict):
                known = self._paths.get(id(key))
                found.changed[Before(known) if known else key] = one
            elif key in kept:
                found.changed[key] = one
            else:
                found.added.append(one)
        return found or None

    def restore(self, more: Mapping[str, Mapping[str, Any]]) -> None:
        """Put all back, with some `more` by the names of spaces."""
        for name, own in self._own.items():
            space, old = self._spaces[name], {**own, **more.get(name, {})}
            for key in [key for key in space if key not in old]:
                del space[key]
            for key, value in old.items():
                if key not in space or space[key] is not value:
                    space[key] = value
        for collection, items in self._contents.values():
            fill(collection, items)


def put(spaces: Spaces, values: Mapping[Place, Any]) -> None:
    """Set what `changes` has said, with the tensors of another call."""
    trees: Mapping[Place, Any] = pytree.tree_map(
        lambda each: each.now(spaces) if isinstance(each, Before) else each, dict(values)
    )
    for (name, key), each in trees.items():
        if isinstance(each, Filled):
            each.put(spaces[name][key], spaces)
        else:
            spaces[name][key] = each


def drop_strays(tensors: Callable[[], Iterable[Any]], is_done: bool) -> str | None:
    """Drop these from each `lru_cache` and, of a trace that is done, from what a user may have.

    Returns what that is. It asks for `tensors` again after garbage is collected.
    """
    if not list(tensors()):
        return None
    gc.collect()
    strays = {id(each): each for each in tensors()}
    holders = gc.get_referrers(*strays.values()) if strays else []
    holders = [each for each in holders if each is not strays]
    of_caches, found = _clear_caches(holders), None
    for holder in holders if is_done else ():
        if id(holder) not in of_caches and _drop(holder, strays):
            found = type(holder).__name__
    return found


def _clear_caches(holders: Sequence[Any]) -> set[int]:
    """Clear each `lru_cache` among these, or that has one of the dicts; the holders' identities.

    Each question who refers to an object looks at all objects there are: it is asked once.
    """
    cached, dicts = type(functools.lru_cache(joined)), [x for x in holders if isinstance(x, dict)]
    asking = gc.get_referrers(*dicts) if dicts else []
    found = set[int]()
    for each in (*holders, *asking):
        if isinstance(each, cached):
            found |= {id(each), *map(id, gc.get_referents(each))}
            each.cache_clear()
    return found


def _drop(holder: Any, strays: Mapping[int, Any]) -> bool:
    """Drop strays from what a user may have; tell whether there were some."""
    if isinstance(holder, dict):
        keys = [key for key, each in holder.items() if id(each) in strays]
        for key in keys:
            del holder[key]
        return bool(keys)
    if isinstance(holder, (list, deque)):
        items = [each for each in holder if id(each) not in strays]
        is_there = len(items) < len(holder)
        fill(holder, items)
        return is_there
    if isinstance(holder, set):
        own = {each for each in holder if id(each) in strays}
        holder -= own
        return bool(own)
    names = [each for each in getattr(type(holder), "__slots__", ()) if isinstance(each, str)]
    names = [each for each in names if id(getattr(holder, each, None)) in strays]
    for each in names:
        setattr(holder, each, None)
    return bool(names)


def values_of(spaces: Spaces) -> Iterator[tuple[Place, Any]]:
    """By place, the values in spaces; a list or a dict that is at several, once."""
    known: set[int] = set()
    for name, space in spaces.items():
        for key in [] if name == MODULES else list(space):
            value = space[key]
            if key in OF_TORCH or id(value) in known:
                continue
            if type(value) in COLLECTIONS:
                known.add(id(value))
            yield (name, key), value


def held_tensors(spaces: Spaces) -> dict[Place, Any]:
    """By place, the tensors there; they may be in lists, tuples and dicts."""
    return {place: value for place, value in values_of(spaces) if holds_tensors(value)}


def described(value: Any, are_unread: bool, unread: Container[int]) -> Any:
    """What of a value that calls leave a program is for.

    It is not for the elements of tensors; nor for what is in lists that are `unread`, by their
    identities; nor for numbers that calls leave and that `are_unread`, also in such dicts.
    """
    if isinstance(value, (list, deque)):
        are_unread = False
        if id(value) in unread:
            return type(value)
    if isinstance(value, dict):
        are_unread = are_unread and id(value) in unread
    inside = functools.partial(described, are_unread=are_unread, unread=unread)
    if isinstance(value, dict) and type(value) in COLLECTIONS:
        return type(value), tuple((key, inside(each)) for key, each in value.items())
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value), tuple(map(inside, value))
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, None if are_unread else value.tobytes()
    if are_unread and isinstance(value, float):
        return type(value)
    leaves, structure = pytree.tree_flatten(value)
    if leaves and leaves[0] is not value:
        return type(value), (structure, *map(inside, leaves))
    return type(value), value


def holds_numbers(tree: Any) -> bool:
    """Whether a call leaves numbers of tensors in it."""
    inside = pytree.tree_leaves(tree, is_leaf=lambda each: isinstance(each, AsNumbers))
    return any(isinstance(each, AsNumbers) for each in inside)


def fill(collection: Any, value: Any) -> None:
    """Give a list or a dict the items of another."""
    collection.clear()
    collection.update(value) if isinstance(collection, dict) else collection.extend(value)


def joined(name: str, key: str) -> str:
    """The name of a place for users."""
    name = "" if name.startswith(AROUND) else name
    return f"{name}.{key}" if name else key


def _is_equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (one == other or one != one)


def _is_constant(value: Any) -> bool:
    return isinstance(value, CONSTANTS)


def _items(value: Any) -> list[tuple[Any, Any]]:
    if type(value) not in (*COLLECTIONS, tuple):
        return []
    return list(value.items()) if isinstance(value, dict) else list(enumerate(value))
