"""What a rule function is asked about."""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.model.sharding import Shape


@dataclass(frozen=True, slots=True)
class Query:
    """One op: its name, its handle, and the global shape of each operand and result.

    A shape is `None` where the value is no tensor. Ops with a tensor of unknown size are not asked
    about: they have no rule.
    """

    name: str
    op: ir.Operation
    operands: tuple[Shape | None, ...]
    results: tuple[Shape | None, ...]
