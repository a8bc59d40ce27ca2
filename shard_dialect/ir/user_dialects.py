"""Dialects of users: known to every context made from then on."""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir, irdl

Loader = Callable[[], None]
_loaders: dict[str, Loader] = {}


def register_dialect(name: str, definition: str | Loader) -> None:
    """Make the dialect `name` known to `opt`, `run` and new contexts.

    `definition` is the text of an IRDL module, or a function that loads the dialect into the
    current context. A later definition of the same name takes the place of the first.
    """
    _loaders[name] = definition if callable(definition) else lambda: _load_irdl(definition)


def is_of_users(name: str) -> bool:
    """Whether the dialect `name` was registered here, so that its attributes mean what they say."""
    return name in _loaders


def _load_irdl(text: str) -> None:
    irdl.load_dialects(ir.Module.parse(text))


def load_registered() -> None:
    """Load the registered dialects into the current context. Raises `ShardError`."""
    for name, load in _loaders.items():
        if ir.Context.current.is_dialect_loaded(name):
            raise ShardError(f"there is a dialect '{name}' already: yours needs another name")
        try:
            load()
        except Exception as error:
            said = " ".join(str(error).split())
            raise ShardError(f"cannot load dialect '{name}': {said}") from None
