"""Free buffers at the end of their block. A step of `lower`, after bufferization.

    %a = memref.alloc() : memref<64xf32>
    linalg.exp ins(%x) outs(%a)              memref.dealloc %a
    linalg.log ins(%a) outs(%result)    ->   return
    return

Upstream's pass compares, at the end of a block, each buffer with all others, which may share its
memory. So it is only asked about buffers that may outlive their block: those that control flow
hands on.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.buffer_views import VIEWS, is_buffer
from shard_dialect.ir.building import build
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.walk import blocks, operations, walk

_OTHERS = "builtin.module(buffer-deallocation-pipeline)"
_FREED_HERE = "bufferization.manual_deallocation"
"""Upstream's attribute for buffers that its pass leaves alone."""
_OWNS_NOTHING = (*VIEWS, "memref.alloca", "memref.get_global")


def free_buffers(module: ir.Operation) -> None:
    """Free each buffer in the block that allocates it, or by upstream's pass."""
    freed: list[ir.Operation] = []
    is_all = True
    for block in [each for function in functions_of(module) for each in blocks(function)]:
        ops = operations(block)
        for op in ops:
            if op.name == "memref.alloc" and _stays(op.results[0]):
                freed += [op, _free(op, ops[-1])]
            elif op.name not in _OWNS_NOTHING:
                is_all &= not any(map(is_buffer, op.results))
    if is_all:
        return
    for op in freed:
        op.attributes[_FREED_HERE] = ir.UnitAttr.get()
    PassManager.parse(_OTHERS).run(module)
    for op in walk(module):
        if op.name in ("memref.alloc", "memref.dealloc") and _FREED_HERE in op.attributes:
            del op.attributes[_FREED_HERE]


def _stays(buffer: ir.Value) -> bool:
    """Whether no op hands the buffer on, out of its block or into another one."""
    return all(_leaves(use.owner.operation) for use in buffer.uses)


def _leaves(op: ir.Operation) -> bool:
    """Whether the op leaves the buffers that it uses to their block."""
    if op.name in VIEWS:
        return _stays(op.results[0])
    if op.name in _ENDS or any(map(is_buffer, op.results)):
        return False
    return not len(op.regions) or op.name.startswith("linalg.")


_ENDS = ("func.return", "scf.yield", "scf.condition", "cf.br", "cf.cond_br", "cf.switch")


def _free(op: ir.Operation, end: ir.Operation) -> ir.Operation:
    with ir.InsertionPoint(end), op.location:
        return build.create("memref.dealloc", [], [op.results[0]])
