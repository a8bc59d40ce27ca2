"""The sharding of a whole op, and what it costs each device."""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.model import Sharding


@dataclass(frozen=True, slots=True)
class OpSharding:
    """The shardings of an op's operands and results; `None` for values that are not tensors."""

    operands: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]
    flops: float
    """The floating-point operations of one device; 0 for an op that is not a product."""
    elements: int
    """The elements that one device computes: of the largest operand or result."""
