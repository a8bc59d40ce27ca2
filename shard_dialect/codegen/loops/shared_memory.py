"""Alias analysis: which buffers may share memory.

A view shares its buffer's memory. Each allocation and each global has memory of its own. So have
the arguments of a function that writes to none of them: runs never write to their inputs, and
results have their own buffers.
"""

from __future__ import annotations

from collections.abc import Iterable

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import boundary
from shard_dialect.ir.mesh.attributes import RESULT

VIEWS = (
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.reinterpret_cast",
    "memref.subview",
    "memref.transpose",
)
_ALLOCATIONS = ("memref.alloc", "memref.alloca", "memref.get_global")
_UNKNOWN, _ARGUMENTS = -1, -2
_LARGEST, _STACK = 4096, 65536
"""The most bytes on the stack: of one buffer, and of a function. Threads may have only 512 KiB."""


class Memory:
    """Numbers the buffers of one function, and the memory that each is in."""

    def __init__(self, function: ir.Operation) -> None:
        self._numbers: dict[ir.Value, int] = {}
        self._roots: dict[ir.Value, int] = {}
        self._globals: dict[str, int] = {}
        self._on_stack = 0
        block = function.regions[0].blocks[0]
        entries = boundary(function, "arg_attrs")
        for argument, entry in zip(block.arguments, entries, strict=True):
            if isinstance(argument.type, ir.MemRefType):
                is_result = RESULT in entry
                self._roots[argument] = self.number(argument) if is_result else _ARGUMENTS

    def number(self, value: ir.Value) -> int:
        """The buffer's number: the same for the same value."""
        return self._numbers.setdefault(value, len(self._numbers))

    def root(self, value: ir.Value) -> int:
        """The memory's number: the same for all buffers that may share memory."""
        if value not in self._roots:
            self._roots[value] = self._root_of(value)
        return self._roots[value]

    def fits_on_stack(self, size: int) -> bool:
        """Whether one more buffer fits on the stack; if so, reserve it."""
        is_small = size <= _LARGEST and self._on_stack + size <= _STACK
        self._on_stack += size if is_small else 0
        return is_small

    def is_unknown(self, roots: Iterable[int]) -> bool:
        """Whether the memory of one of these numbers is not known."""
        return _UNKNOWN in roots

    def _root_of(self, value: ir.Value) -> int:
        if not isinstance(value.type, ir.MemRefType):
            return self.number(value)
        owner = value.owner
        if isinstance(owner, ir.Block):
            return _UNKNOWN
        op = owner.operation
        if op.name in VIEWS:
            return self.root(op.operands[0])
        if op.name == "memref.get_global":
            name = op.attributes["name"].value
            return self._globals.setdefault(name, self.number(value))
        return self.number(value) if op.name in _ALLOCATIONS else _UNKNOWN
