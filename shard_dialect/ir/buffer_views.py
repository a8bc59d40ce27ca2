"""What ops on buffers do with the memory of their operand."""

from __future__ import annotations

from shard_dialect.ir.bindings import ir

VIEWS = (
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.reinterpret_cast",
    "memref.subview",
    "memref.transpose",
)
"""Ops whose result is in the memory of their first operand."""


def is_buffer(value: ir.Value) -> bool:
    """Whether the value is a buffer, of any shape."""
    return isinstance(value.type, (ir.MemRefType, ir.UnrankedMemRefType))
