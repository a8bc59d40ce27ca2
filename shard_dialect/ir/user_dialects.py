"""Dialects that users register, which all later contexts load."""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir, irdl

Loader = Callable[[], None]
_loaders: dict[str, Loader] = {}


def register_dialect(name: str, definition: str | Loader) -> None:
    """Register the dialect `name` for `opt`, `run` and new contexts.

    `definition` is the text of an IRDL module, or a function that loads the dialect into the
    current context. A later definition of the same name replaces an earlier one.
    """
    _loaders[name] = definition if callable(definition) else lambda: _load_irdl(definition)


def is_of_users(name: str) -> bool:
    """Whether a user registered the dialect `name`."""
    return name in _loaders


def _load_irdl(text: str) -> None:
    irdl.load_dialects(ir.Module.parse(text))


def load_registered(keeps_loaded: bool = False) -> None:
    """Load the registered dialects into the current context. Raises `ShardError`.

    One that is loaded already is an error, or kept.
    """
    context = ir.Context.current
    if _loaders:  # a function may load one that extends a dialect, and abort where that is missing
        context.load_all_available_dialects()
    for name, load in _loaders.items():
        if keeps_loaded and context.is_dialect_loaded(name):
            continue
        if context.is_dialect_loaded(name):
            raise ShardError(f"there is a dialect '{name}' already: yours needs another name")
        try:
            load()
        except Exception as error:
            reason = " ".join(str(error).split())
            raise ShardError(f"cannot load dialect '{name}': {reason}") from None
