"""Trees of values, as arguments and results of a module are, with names for their tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shard_dialect.errors import MissingExtra, ShardError

try:
    import torch
    from torch.utils import _pytree as pytree
except ImportError:
    raise MissingExtra("torch", "torch") from None

Tensor = Any


@dataclass(frozen=True)
class Leaves:
    """A tree of values, flat."""

    names: Sequence[str]
    values: Sequence[Any]
    structure: Any
    targets: int = 0
    """How many arguments at the end are for the loss."""

    @classmethod
    def of(cls, tree: Any, name: str = "") -> Leaves:
        """Names are paths below `name`."""
        values, structure = pytree.tree_flatten(tree)
        # A dict knows its keys, where a class that is one may not tell them.
        plain = dict(tree) if isinstance(tree, Mapping) else tree
        paths, _ = pytree.tree_flatten_with_path(plain)
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

    def is_like(self, other: Leaves, shapes: bool) -> bool:
        """Whether the trees differ in nothing but tensors, and the tensors not in shape and type.

        Without `shapes`, the tensors may differ in these, too.
        """
        return self.structure == other.structure and all(
            _described(a, shapes) == _described(b, shapes)
            for a, b in zip(self.values, other.values, strict=True)
        )


def _key(entry: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)


def _described(leaf: Any, shapes: bool) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
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
    by_name = _named(module.forward, args, kwargs)
    of_loss = _named(loss, (None, *targets), {}) if loss else {}
    target_names = list(Leaves.of(dict(list(of_loss.items())[1:])).names)
    tree = (tuple(args), dict(sorted(kwargs.items())), tuple(targets))
    values, structure = pytree.tree_flatten(tree)
    order = [*_paths(by_name, args, kwargs), *target_names]
    return Leaves(order, values, structure, len(targets))


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


def refuse_odd(result: Leaves) -> None:
    """Raise `ShardError` for a result with values that are no tensors and no constants."""
    for name, value in zip(result.names, result.values, strict=True):
        if not isinstance(value, (torch.Tensor, bool, int, float, str, type(None))):
            raise ShardError(
                f"a result is a {type(value).__name__}: expected tensors in tuples, lists, dicts "
                "and the like; a model of transformers needs use_cache=False",
                name,
            )
