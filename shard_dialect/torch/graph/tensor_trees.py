"""Trees of values, as arguments and results of a module are, with names for their tensors.

The caches of transformers as trees of tensors: arguments and results of a module hold them.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree

from shard_dialect.errors import ShardError

_PARTS = ("self_attention_cache", "cross_attention_cache")


def know_caches() -> None:
    """Let torch see the tensors of caches, if transformers is imported."""
    module = sys.modules.get("transformers.cache_utils")
    if module is not None:
        _register(module)


def know_records(tree: Any) -> None:
    """Let torch see the tensors of the dataclasses in a tree."""
    while True:
        kinds = {
            type(each)
            for each in pytree.tree_leaves(tree)
            if is_dataclass(each) and not isinstance(each, type)
        }
        known = len(pytree.SUPPORTED_NODES)
        for kind in kinds:
            if all(each.init for each in fields(kind)):
                pytree.register_dataclass(kind)
        if len(pytree.SUPPORTED_NODES) == known:
            return


def _register(module: Any) -> None:
    """The caches of transformers, and those that models derive from `DynamicCache`."""
    kinds = [(each, _parts, _with_parts) for each in _class_in(module, "EncoderDecoderCache")]
    for layered in _class_in(module, "DynamicCache"):
        kinds += [(each, _layers, _with_layers) for each in _derived(layered)]
    for kind, flatten, unflatten in kinds:
        if kind not in pytree.SUPPORTED_NODES:
            pytree.register_pytree_node(
                kind,
                lambda each, flatten=flatten: _without_keys(flatten(each)),
                unflatten,
                serialized_type_name=f"shard_dialect.{kind.__module__}.{kind.__qualname__}",
                flatten_with_keys_fn=flatten,
            )


def _class_in(module: Any, name: str) -> list[Any]:
    """The class of this name; none in a version of transformers that has none."""
    return [getattr(module, name)] if hasattr(module, name) else []


def _derived(kind: Any) -> Iterator[Any]:
    """A class, and those that are derived from it."""
    yield kind
    for each in kind.__subclasses__():
        yield from _derived(each)


@dataclass(frozen=True)
class _Template:
    """A cache without its tensors; two are equal if they differ in nothing else."""

    cache: Any = field(compare=False)
    facts: Any


Flat = tuple[Sequence[tuple[Any, Any]], _Template]


def _without_keys(flat: Flat) -> Any:
    pairs, template = flat
    return [each for _, each in pairs], template


def _layers(cache_: Any) -> Flat:
    """The tensors of all layers: keys, values, states of convolutions; and those beside layers."""
    beside = {key: each for key, each in vars(cache_).items() if key != "layers"}
    spaces = [(f"layers.{n}.", vars(each)) for n, each in enumerate(cache_.layers)]
    pairs, facts, held = [], [], []
    for prefix, space in (*spaces, ("", beside)):
        leaves, structure = pytree.tree_flatten_with_path(space)
        keys = [
            prefix + ".".join(str(getattr(each, "key", getattr(each, "idx", ""))) for each in path)
            for path, _ in leaves
        ]
        pairs += [
            (pytree.GetAttrKey(key), leaf)
            for key, (_, leaf) in zip(keys, leaves, strict=True)
            if is_tensor(leaf)
        ]
        kept = tuple(_Held if is_tensor(leaf) else leaf for _, leaf in leaves)
        held.append((structure, kept))
        named = zip(keys, kept, strict=True)
        facts.append(tuple(pair for pair in named if pair[1] is _Held or _is_plain(pair[1])))
    kinds = (type(cache_), *map(type, cache_.layers))
    return pairs, _Template((kinds, held), (tuple(each.__name__ for each in kinds), tuple(facts)))


class _Held:
    """Stands for a tensor in a cache."""


def _with_layers(values: Sequence[Any], template: _Template) -> Any:
    kinds, held = template.cache
    rest = iter(values)
    spaces = [
        pytree.tree_unflatten([next(rest) if each is _Held else each for each in kept], structure)
        for structure, kept in held
    ]
    made, *layers = (kind.__new__(kind) for kind in kinds)
    *of_layers, beside = spaces
    for each, space in zip(layers, of_layers, strict=True):
        vars(each).update(space)
    vars(made).update(beside, layers=layers)
    return made


def _parts(cache_: Any) -> Flat:
    pairs = [(pytree.GetAttrKey(name), getattr(cache_, name)) for name in _PARTS]
    facts = tuple(sorted(getattr(cache_, "is_updated", {}).items()))
    empty = copy.copy(cache_)
    empty.is_updated = dict(facts)
    for name in _PARTS:
        setattr(empty, name, None)
    return pairs, _Template(empty, (type(cache_).__name__, facts))


def _with_parts(values: Sequence[Any], template: _Template) -> Any:
    made = copy.copy(template.cache)
    made.is_updated = dict(template.cache.is_updated)
    for name, each in zip(_PARTS, values, strict=True):
        setattr(made, name, each)
    return made


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch."""
    return isinstance(value, torch.Tensor)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, type(None)))


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a string, or a collection of these."""
    return all(map(_is_plain, pytree.tree_leaves(value)))


Tensor = Any
_UNREAD: Mapping[Any, str] = {torch.uint16: "int32", torch.uint64: "int64"}


@dataclass(frozen=True)
class Leaves:
    """A tree of values, flat."""

    names: Sequence[str]
    values: Sequence[Any]
    structure: Any

    @classmethod
    def of(cls, tree: Any, name: str = "") -> Leaves:
        """Names are paths below `name`."""
        know_caches()
        know_records(tree)
        values, structure = pytree.tree_flatten(tree)
        paths, _ = pytree.tree_flatten_with_path(_with_keys(tree))
        names = [".".join([*([name] if name else []), *map(_key, path)]) for path, _ in paths]
        return cls(names, values, structure)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors among them, by name."""
        pairs = zip(self.names, self.values, strict=True)
        return {name: each for name, each in pairs if isinstance(each, torch.Tensor)}

    def with_tensors(self, tensors: Sequence[Tensor]) -> Any:
        """The tree with other tensors."""
        rest = iter(tensors)
        values = [next(rest) if isinstance(each, torch.Tensor) else each for each in self.values]
        return pytree.tree_unflatten(values, self.structure)

    def without_elements(self) -> Leaves:
        """With tensors of the same types that have no elements, in the places of tensors."""
        return self._without(torch.Tensor)

    def whole(self) -> Leaves:
        """With whole tensors without elements in the places of DTensors."""
        return self._without(DTensor)

    def _without(self, kind: Any) -> Leaves:
        values = [
            torch.empty(each.shape, dtype=each.dtype, device="meta")
            if isinstance(each, kind)
            else each
            for each in self.values
        ]
        return replace(self, values=values)

    def is_like(self, other: Leaves, shapes: bool) -> bool:
        """Whether the trees differ in nothing but tensors, and the tensors not in shape and type.

        Without `shapes`, the tensors may differ in these, too.
        """
        return self.structure == other.structure and all(
            _described(a, shapes) == _described(b, shapes)
            for a, b in zip(self.values, other.values, strict=True)
        )


def _with_keys(tree: Any) -> Any:
    """With dicts, which know their keys, for classes that are dicts and may not tell them."""
    if isinstance(tree, Mapping) and type(tree) in pytree.SUPPORTED_NODES:
        return {key: _with_keys(each) for key, each in tree.items()}
    return type(tree)(map(_with_keys, tree)) if type(tree) in (tuple, list) else tree


def _key(entry: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)


def _described(leaf: Any, shapes: bool) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return type(leaf), leaf
    return (leaf.shape, leaf.dtype) if shapes else torch.Tensor


def arguments_of(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    loss: Callable[..., Tensor] | None,
    targets: Sequence[Any],
) -> Leaves:
    """The arguments of a call, named as `forward` names them, and those of the loss.

    Raises `ShardError` if `forward` takes no such arguments.
    """
    given: object = args
    if not isinstance(given, tuple | list):
        kind = type(given).__name__
        raise ShardError(f"the arguments are a tuple, as (x,), and not a {kind}")
    by_name = _named(module.forward, args, kwargs)
    of_loss = _named(loss, (None, *targets), {}) if loss else {}
    target_names = list(Leaves.of(dict(list(of_loss.items())[1:])).names)
    tree = (tuple(args), dict(sorted(kwargs.items())), tuple(targets))
    know_caches()
    know_records(tree)
    values, structure = pytree.tree_flatten(tree)
    order = [*_paths(by_name, args, kwargs), *target_names]
    for name, each in zip(order, values, strict=True):
        if type(each).__module__ == "numpy":
            raise ShardError("is an array of numpy: give torch.from_numpy of it", name)
        if isinstance(each, torch.Tensor):
            refuse_layout(each, name)
    return Leaves(order, values, structure)


def refuse_layout(tensor: Tensor, name: str) -> None:
    """Raise `ShardError` for a tensor that no program has, by its layout or its type."""
    if tensor.layout != torch.strided:
        raise ShardError("is a sparse tensor: use to_dense() of it", name)
    if tensor.dtype in _UNREAD:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise ShardError(
            f"is of {kind}, which torch-mlir does not read: use {_UNREAD[tensor.dtype]}", name
        )


def _paths(by_name: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """The names of the leaves of positional arguments, and then of keywords in sorted order."""
    positional = {name: each for name, each in by_name.items() if name not in kwargs}
    keywords = {name: kwargs[name] for name in sorted(kwargs)}
    return [*Leaves.of(positional).names, *Leaves.of(keywords).names]


def _named(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise ShardError(f"{name} does not take these arguments: {error}") from None
    kinds = signature.parameters
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        is_rest = kinds[name].kind is inspect.Parameter.VAR_KEYWORD
        found.update(value if is_rest else {name: value})
    return found


def has_derivative(value: Any) -> bool:
    """Whether it is a tensor of floats or of complex numbers."""
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


COLLECTIONS = (list, dict, OrderedDict, defaultdict, deque)
"""Those that are filled in place."""


def holds_tensors(value: Any) -> bool:
    """Whether it is a tensor, or a list, tuple or dict with tensors somewhere inside."""
    if type(value) in (*COLLECTIONS, tuple):
        return any(isinstance(each, torch.Tensor) for each in pytree.tree_leaves(value))
    return isinstance(value, torch.Tensor)


def refuse_odd(result: Leaves, *others: type) -> None:
    """Raise `ShardError` for a result with values that are no tensors, constants, or `others`."""
    for name, value in zip(result.names, result.values, strict=True):
        if not isinstance(value, (torch.Tensor, bool, int, float, str, type(None), *others)):
            raise ShardError(
                f"a result is of type {type(value).__name__}: expected tensors in tuples, lists, "
                "dicts and the like; a model of transformers may need use_cache=False",
                name,
            )
