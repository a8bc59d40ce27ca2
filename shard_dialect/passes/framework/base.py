"""What a pass is: a frozen dataclass with its options as fields (`options`), and `rewrite`.

@register_pass
@dataclass(frozen=True)
class DropUnused(Pass):
    \"\"\"Erase functions that nothing calls.\"\"\"

    name = "drop-unused"

    def rewrite(self, module: ir.Operation) -> None: ...
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from shard_dialect.ir.bindings import ir, plain_ops
from shard_dialect.passes.framework.options import options_of, written


@contextmanager
def _without_collection() -> Iterator[None]:
    """No search for garbage meanwhile: what a pass makes lives until it is done.

    For a large module the searches would take a quarter of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class Pass(ABC):
    """Valid IR in, valid IR out."""

    name: ClassVar[str]
    anchor: ClassVar[str] = "builtin.module"
    """The op that the pass runs on: `func.func` for one function at a time, or `any`."""

    def run(self, module: ir.Module | ir.Operation) -> None:
        """Change the module in place. Raises a located `ShardError` for what it cannot do."""
        with module.context, ir.Location.unknown(), plain_ops(), _without_collection():
            self.rewrite(module.operation)

    @abstractmethod
    def rewrite(self, module: ir.Operation) -> None:
        """What the pass does to a module (or other `anchor`), in its context."""

    @classmethod
    def summary(cls) -> str:
        """The first line of the class's docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def __str__(self) -> str:
        """The pass in a pipeline's text, with all of its options that are not `None`."""
        settings = [
            f"{option.name}={written(value)}"
            for option in options_of(type(self))
            if (value := getattr(self, option.field)) is not None
        ]
        return f"{self.name}{{{' '.join(settings)}}}" if settings else self.name
