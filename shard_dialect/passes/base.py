"""What a pass is: a frozen dataclass with its options as fields, and `rewrite`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from shard_dialect.ir.bindings import ir


@dataclass(frozen=True)
class Pass(ABC):
    """Valid IR in, valid IR out. Options are booleans, integers and strings with defaults."""

    name: ClassVar[str]

    def run(self, module: ir.Module | ir.Operation) -> None:
        """Change the module in place. Raises a located `ShardError` for what it cannot do."""
        with module.context, ir.Location.unknown():
            self.rewrite(module.operation)

    @abstractmethod
    def rewrite(self, module: ir.Operation) -> None:
        """What the pass does, in the module's context."""

    @classmethod
    def summary(cls) -> str:
        """The first line of the class's docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]
