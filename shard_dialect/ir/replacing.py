"""Values and ops that stand in the place of others."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping

from shard_dialect.ir.bindings import ir


def replace_values(values: Iterable[ir.Value], others: Iterable[ir.Value]) -> None:
    """Let all that read one of `values` read the other one instead."""
    for value, other in zip(values, others, strict=True):
        value.replace_all_uses_with(other)


def replace_op(op: ir.Operation, *values: ir.Value) -> None:
    """Replace the results of an op by these values, and erase it."""
    replace_values(op.results, values)
    op.erase()


def copy_onto(op: ir.Operation, operands: Iterable[ir.Value]) -> ir.Operation:
    """A copy of an op, at the insertion point, with these as its first operands."""
    copy: ir.Operation = op.clone().operation
    for number, operand in enumerate(operands):
        copy.operands[number] = operand
    return copy


def copy_along(op: ir.Operation, copies: MutableMapping[ir.Value, ir.Value]) -> None:
    """Copy an op, which reads copies of values where there are some; add its results to them."""
    copy = copy_onto(op, [copies.get(each, each) for each in op.operands])
    copies.update(zip(op.results, copy.results, strict=True))


def drop_unused(ops: Iterable[ir.Operation]) -> None:
    """Erase those of the ops, in this order, of which no op reads a result."""
    for op in ops:
        if not is_used(*op.results):
            op.erase()


def is_used(*values: ir.Value) -> bool:
    """Whether an op reads one of these values."""
    return any(True for value in values for _ in value.uses)
