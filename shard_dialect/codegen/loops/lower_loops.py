"""Replace the linalg ops of a module by loops, a run of ops at a time."""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.codegen.loops.buffers import Buffers, drop_unread
from shard_dialect.codegen.loops.fuse import plan
from shard_dialect.codegen.loops.nest import Nest, read
from shard_dialect.codegen.loops.shared_memory import VIEWS, Memory
from shard_dialect.codegen.loops.write_loops import Writer
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.building import build
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.walk import operations, walk

_GENERALIZE = "builtin.module(func.func(linalg-generalize-named-ops))"
_REST = "builtin.module(func.func(convert-linalg-to-loops))"
_MOVES_PAST = (
    *VIEWS,
    "memref.alloc",
    "memref.alloca",
    "memref.get_global",
    "memref.extract_aligned_pointer_as_index",
)
"""Ops that read and write no memory, so that loops may move past them."""


def to_loops(module: ir.Operation) -> None:
    """Replace all linalg ops; those on buffers of dynamic size become loops by upstream's pass."""
    _copies_to_linalg(module)
    PassManager.parse(_GENERALIZE).run(module)
    for function in functions_of(module):
        memory = Memory(function)
        for block in list(_blocks(function)):
            _write_nests(block, memory, function)
    PassManager.parse(_REST).run(module)


def _blocks(op: ir.Operation) -> Iterator[ir.Block]:
    """All blocks in the op, without those of linalg ops, which are consumed."""
    for region in op.regions:
        for block in region:
            yield block
            for inner in operations(block):
                if not inner.name.startswith("linalg."):
                    yield from _blocks(inner)


def _copies_to_linalg(module: ir.Operation) -> None:
    """Turn copies into linalg ops, so that they fuse with the writer or readers of the copy."""
    for op in walk(module):
        if op.name == "memref.copy" and all(each.type.has_static_shape for each in op.operands):
            with ir.InsertionPoint(op), op.location:
                build.copy(*op.operands)
            op.erase()


def _write_nests(block: ir.Block, memory: Memory, function: ir.Operation) -> None:
    """Write each longest run of nests that only ops without memory effects separate."""
    nests: list[Nest] = []
    freed: list[ir.Operation] = []
    values: set[ir.Value] = set()
    for op in operations(block):
        nest = read(op, memory)
        if nest is not None and 0 in nest.sizes:
            op.erase()
        elif nest is not None:
            nests.append(nest)
        elif op.name == "memref.dealloc" and nests:
            freed.append(op)
        elif not _moves_past(op):
            if nests:
                values |= _write(Buffers(nests, memory, function), op)
            for each in freed:
                each.move_before(op)
            nests, freed = [], []
    drop_unread(values)


def _moves_past(op: ir.Operation) -> bool:
    return op.name in _MOVES_PAST or op.name.startswith(("arith.", "math.", "index."))


def _write(buffers: Buffers, anchor: ir.Operation) -> set[ir.Value]:
    """Write the nests before `anchor`; return the buffers that they accessed."""
    buffers.rename()
    loops = plan(buffers.nests)
    buffers.contract(loops)
    Writer(buffers.nests, anchor).write(loops)
    for op in buffers.freed:
        op.move_before(anchor)
    return buffers.values()
