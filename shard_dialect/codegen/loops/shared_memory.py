"""Alias analysis: which buffers may share memory.

A view shares its buffer's memory. Each allocation and each global has memory of its own. So have
the arguments of a function that writes to none of them: runs never write to their inputs, and
results have their own buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.buffer_views import VIEWS
from shard_dialect.ir.function import boundary
from shard_dialect.ir.mesh.attributes import RESULT

_ALLOCATIONS = ("memref.alloc", "memref.alloca", "memref.get_global")
_UNKNOWN, _ARGUMENTS, _OTHERS = -1, -2, -3
_LARGEST, _STACK = 4096, 65536
"""The most bytes on the stack: of one buffer, and of a function. Threads may have only 512 KiB."""


@dataclass(frozen=True)
class Shared:
    """What a run of nests needs to know of a value that it uses."""

    root: int
    """The number of the value whose memory it is in; negative if that is none of the values."""
    is_local: bool
    """Whether it is a buffer that nothing else accesses."""


def _is_local(value: ir.Value, block: ir.Block) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in ("memref.alloc", "memref.alloca"):
        return False
    if owner.operation.block != block:  # a loop around this block may bring the elements back
        return False
    return all(use.owner.operation.name == "memref.dealloc" for use in value.uses)


class Memory:
    """Numbers the buffers of one function, and the memory that each is in."""

    def __init__(self, function: ir.Operation | None = None) -> None:
        self.function = function
        """The function, where it is one of the program."""
        self._numbers: dict[ir.Value, int] = {}
        self._roots: dict[ir.Value, int] = {}
        self._globals: dict[str, int] = {}
        self._local: set[ir.Value] = set()
        self._on_stack = 0

    @classmethod
    def of(cls, function: ir.Operation) -> Memory:
        """That of a function of the program."""
        memory = cls(function)
        block = function.regions[0].blocks[0]
        entries = boundary(function, "arg_attrs")
        for argument, entry in zip(block.arguments, entries, strict=True):
            if isinstance(argument.type, ir.MemRefType):
                is_result = RESULT in entry
                memory._roots[argument] = memory.number(argument) if is_result else _ARGUMENTS
        return memory

    @classmethod
    def of_run(cls, values: Sequence[ir.Value], shared: Sequence[Shared]) -> Memory:
        """That of `values`, the arguments of a function, about which `shared` says all."""
        memory = cls()
        for value, each in zip(values, shared, strict=True):
            memory.number(value)
            memory._roots[value] = each.root
            if each.is_local:
                memory._local.add(value)
        return memory

    def shared(self, values: Sequence[ir.Value], block: ir.Block) -> list[Shared]:
        """What a run in `block` needs to know of each of the values, numbered by their order."""
        roots = [self.root(value) for value in values]
        own = {
            root: number
            for number, (value, root) in enumerate(zip(values, roots, strict=True))
            if root == self.number(value)
        }
        first = {root: _OTHERS - roots.index(root) for root in roots if root not in own}
        numbered = own | first
        return [
            Shared(numbered[root], _is_local(value, block))
            for value, root in zip(values, roots, strict=True)
        ]

    def is_local(self, value: ir.Value) -> bool:
        """Whether only the nests of this run access the buffer."""
        is_argument = isinstance(value.owner, ir.Block)
        return value in self._local or (not is_argument and value.owner.name == "memref.alloc")

    def forget(self, value: ir.Value) -> None:
        """Forget a value that will be erased: another one may get its address."""
        self._numbers.pop(value, None)
        self._roots.pop(value, None)

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
