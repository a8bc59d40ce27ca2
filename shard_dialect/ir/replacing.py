"""Values and ops that stand in the place of others."""

from __future__ import annotations

from collections.abc import Iterable

from shard_dialect.ir.bindings import ir


def replace_values(values: Iterable[ir.Value], others: Iterable[ir.Value]) -> None:
    """Let all that read one of `values` read the other one instead."""
    for value, other in zip(values, others, strict=True):
        value.replace_all_uses_with(other)


def replace_op(op: ir.Operation, *values: ir.Value) -> None:
    """Replace the results of an op by these values, and erase it."""
    replace_values(op.results, values)
    op.erase()


def drop_unused(ops: Iterable[ir.Operation]) -> None:
    """Erase those of the ops, in this order, of which no op reads a result."""
    for op in ops:
        if not is_used(*op.results):
            op.erase()


def is_used(*values: ir.Value) -> bool:
    """Whether an op reads one of these values."""
    return any(True for value in values for _ in value.uses)
