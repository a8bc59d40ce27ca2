"""Reading StableHLO's attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shard_dialect.ir.bindings import ir, submodule


def numbers(op: ir.Operation, name: str, kind: str) -> Any:
    """The attribute `name` as the bindings' class `kind`, with a field for each of its lists."""
    return getattr(submodule("_mlir_libs._stablehlo"), kind)(op.attributes[name])


def integers(op: ir.Operation, name: str, default: Sequence[int] = ()) -> list[int]:
    """The attribute `name`, a list of integers, flat; `default` where there is none."""
    return list(op.attributes[name] if name in op.attributes else default)


def integer(op: ir.Operation, name: str, default: int | None = None) -> int:
    """The attribute `name`; `default` where an op may go without it."""
    if default is not None and name not in op.attributes:
        return default
    return op.attributes[name].value
