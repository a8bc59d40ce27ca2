"""Which buffers may share memory.

A view is where its buffer is. Each allocation is apart from all others, each global, and each
argument of a function that no argument is written of: what runs never writes to its inputs, and
results are buffers of their own.
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
_APART = ("memref.alloc", "memref.alloca", "memref.get_global")
_UNKNOWN, _ARGUMENTS = -1, -2
_LARGEST, _STACK = 4096, 65536
"""Bytes on the stack: of one buffer, and of all of a function. Threads may have but 512 KiB."""


class Memory:
    """Numbers for the buffers of one function, and for the memory that each lies in."""

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
        """The same for the same value."""
        return self._numbers.setdefault(value, len(self._numbers))

    def root(self, value: ir.Value) -> int:
        """The same for all that may share memory."""
        if value not in self._roots:
            self._roots[value] = self._found(value)
        return self._roots[value]

    def fits_on_stack(self, size: int) -> bool:
        """Whether there is room for one more buffer there, which is taken then."""
        fits = size <= _LARGEST and self._on_stack + size <= _STACK
        self._on_stack += size if fits else 0
        return fits

    def is_unknown(self, roots: Iterable[int]) -> bool:
        return _UNKNOWN in roots

    def _found(self, value: ir.Value) -> int:
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
        return self.number(value) if op.name in _APART else _UNKNOWN
