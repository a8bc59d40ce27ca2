"""Allocate and free memory: steps of `lower` before and after bufferization.

`separate-buffers` gives ops new buffers to write to where upstream's bufferization would take long.

    %2 = linalg.generic ins(%1, %w) outs(%1)      %e = bufferization.alloc_tensor()
                                                  %2 = linalg.generic ins(%1, %w) outs(%e)

At each op, it compares all pairs of values that may share memory. So its time is cubic in the
length of a chain of ops that each write in place over the previous result, and in the number of
users of one empty tensor (a thousand additions took minutes).

A broadcast is computed again for each op that reads it, in whose loop it needs no buffer:

    %b = linalg.generic ins(%row) : 64x32         %a = linalg.generic ins(%row) : 64x32
    %2 = linalg.exp ins(%b)                       %2 = linalg.exp ins(%a)
    ...                                     ->    ...
    %9 = linalg.add ins(%8, %b)                   %b = linalg.generic ins(%row) : 64x32
                                                  %9 = linalg.add ins(%8, %b)

`free-buffers` frees buffers at the end of their block, after bufferization.

    %a = memref.alloc() : memref<64xf32>
    linalg.exp ins(%x) outs(%a)              memref.dealloc %a
    linalg.log ins(%a) outs(%result)    ->   return
    return

Upstream's pass compares, at the end of a block, each buffer with all others, which may share its
memory. So it is only asked about buffers that may outlive their block: those that control flow
hands on.
"""

from __future__ import annotations

from math import prod

from shard_dialect.ir.bindings import ir, run_upstream
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import drop_unused, is_used
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.numbered_function import VIEWS, is_buffer
from shard_dialect.ir.walk import blocks, operations, walk
from shard_dialect.passes.framework.base import needs
from shard_dialect.passes.lower.boundary import NOT_LOWERED

_LONGEST = 64
INTO = {"tensor.insert": 1, "tensor.insert_slice": 1}
"""Ops that write over an operand, with its number; linalg ops write over their last operands."""
_EMPTY = ("bufferization.alloc_tensor", "tensor.empty")


@needs(forms=NOT_LOWERED)
def separate_buffers(module: ir.Operation) -> None:
    """Start a new buffer after a long chain; clone empty tensors and broadcasts for each user."""
    ops = walk(module)
    broadcasts = [each for each in ops if _is_broadcast(each)]
    for op in broadcasts:
        _repeat(op)
    length: dict[ir.Value, int] = {}
    for op in walk(module) if broadcasts else ops:
        if op.name in _EMPTY and not len(op.operands):
            _multiply(op)
        for number, result in _written(op):
            before = length.get(op.operands[number], 0)
            # A new buffer after every so many ops bounds the cubic time of a chain.
            if before == _LONGEST:
                op.operands[number] = _separate(op, number)
            length[result] = before % _LONGEST + 1


def _is_broadcast(op: ir.Operation) -> bool:
    """Whether it only repeats the elements of a smaller tensor."""
    if op.name != "linalg.generic" or len(op.operands) != 2 or len(op.results) != 1:
        return False
    small, large = (each.type for each in op.operands)
    if not all(
        isinstance(each, ir.RankedTensorType) and each.has_static_shape for each in (small, large)
    ):
        return False
    block = op.regions[0].blocks[0]
    first = block.operations[0].operation
    is_copy = first.name == "linalg.yield" and first.operands[0] == block.arguments[0]
    return is_copy and prod(small.shape) < prod(large.shape)


def _repeat(op: ir.Operation) -> None:
    """Compute it right before each op of its block that reads it."""
    uses = list(op.results[0].uses)
    for use in uses if len(uses) > 1 else ():
        reader = use.owner.operation
        if reader.block == op.block and reader.name == "linalg.generic":
            with ir.InsertionPoint(reader):
                copy = op.clone().operation
            reader.operands[use.operand_number] = copy.results[0]
    drop_unused([op])


def _written(op: ir.Operation) -> list[tuple[int, ir.Value]]:
    """The numbers of the operands that are written over, with the results for them."""
    if op.name in INTO:
        return [(INTO[op.name], op.results[0])]
    if op.name.startswith("linalg.") and op.name != "linalg.index":
        return list(enumerate(op.results, len(op.operands) - len(op.results)))
    return []


def _multiply(op: ir.Operation) -> None:
    for use in list(op.results[0].uses)[1:]:
        with ir.InsertionPoint(op):
            copy = op.clone().operation
        use.owner.operation.operands[use.operand_number] = copy.results[0]


def _separate(op: ir.Operation, number: int) -> ir.Value:
    """A new buffer for an op to write to, with a copy of the operand if the op reads it."""
    value = op.operands[number]
    with ir.InsertionPoint(op), op.location:
        if op.name == "linalg.generic" and not _reads(op, number):
            return build.allocate_tensor(value.type)
        return build.allocate_copy(value)


def _reads(op: ir.Operation, number: int) -> bool:
    return is_used(op.regions[0].blocks[0].arguments[number])


_OTHERS = "builtin.module(buffer-deallocation-pipeline)"
_FREED_HERE = "bufferization.manual_deallocation"
"""Upstream's attribute for buffers that its pass leaves alone."""
_OWNS_NOTHING = (*VIEWS, "memref.alloca", "memref.get_global")


@needs(forms=NOT_LOWERED)
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
    run_upstream(_OTHERS, module)
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
