"""Replace the linalg ops of a module by loops, a run of ops at a time."""

from __future__ import annotations

from shard_dialect.codegen.kernels import Kernels, is_kernel
from shard_dialect.codegen.loops.nest import Nest
from shard_dialect.codegen.loops.runs import Runs
from shard_dialect.codegen.loops.shared_memory import Memory
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.buffer_views import VIEWS
from shard_dialect.ir.building import build
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.walk import blocks, operations, walk

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


def to_loops(module: ir.Operation, kernels: Kernels) -> None:
    """Replace all linalg ops by calls of kernels.

    Those on buffers of dynamic size become loops in their place, by upstream's pass.
    """
    _copies_to_linalg(module)
    PassManager.parse(_GENERALIZE).run(module)
    runs = Runs(kernels)
    for function in functions_of(module):
        if is_kernel(function):
            continue
        memory = Memory.of(function)
        for block in list(blocks(function)):
            _write_nests(block, memory, runs)
    PassManager.parse(_REST).run(module)


def _copies_to_linalg(module: ir.Operation) -> None:
    """Turn copies into linalg ops, so that they fuse with the writer or readers of the copy."""
    for op in walk(module):
        if op.name == "memref.copy" and all(each.type.has_static_shape for each in op.operands):
            with ir.InsertionPoint(op), op.location:
                build.copy(*op.operands)
            op.erase()


def _write_nests(block: ir.Block, memory: Memory, runs: Runs) -> None:
    """Write each longest run of nests that only ops without memory effects separate."""
    nests: list[Nest] = []
    freed: list[ir.Operation] = []
    unused: list[ir.Value] = []
    for op in operations(block):
        nest = runs.reader.read(op, memory)
        if nest is not None and 0 in nest.sizes:
            op.erase()
        elif nest is not None:
            nests.append(nest)
        elif op.name == "memref.dealloc" and nests:
            freed.append(op)
        elif not _moves_past(op):
            unused += runs.write(nests, memory, op) if nests else []
            for each in freed:
                each.move_before(op)
            nests, freed = [], []
    for value in unused:
        _erase_buffer(value, memory)


def _erase_buffer(value: ir.Value, memory: Memory) -> None:
    memory.forget(value)
    for use in list(value.uses):
        use.owner.operation.erase()
    value.owner.operation.erase()


def _moves_past(op: ir.Operation) -> bool:
    return op.name in _MOVES_PAST or op.name.startswith(("arith.", "math.", "index."))
