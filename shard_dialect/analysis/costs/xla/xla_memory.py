"""The memory of one device where XLA compiles the program, modelled: ops are fused as it does.

    %a = stablehlo.broadcast_in_dim %c           fused into its reader: not stored
    %b = stablehlo.multiply %x, %a               stored, over %x if nothing reads %x later
    %c = stablehlo.dot_general %b, %w            stored: products take their operands from memory

An op that moves or computes elements is not stored where only ops read it that XLA fuses it into; a
costly one only where there is one such reader. XLA copies what a collective joins or splits along
another dimension than the first. Its results have their memory from the beginning, and temporaries
may be in it. Ops run as soon as what they need is there (`costs.xla.breadth_first`). An exchange
among devices cuts its operand to pieces, and makes pieces. docs/limits.md has what is left.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from shard_dialect.analysis.costs.flat_program import flatten
from shard_dialect.analysis.costs.fusion import fused_ops, is_elementwise
from shard_dialect.analysis.costs.local_ops import Block, Function, LocalProgram, Op
from shard_dialect.analysis.costs.memory import Memory, memory_of_steps
from shard_dialect.analysis.costs.xla.breadth_first import breadth_first

_EXCHANGE = "stablehlo.all_to_all"
_UPDATE, _SLICE = "stablehlo.dynamic_update_slice", "stablehlo.slice"


def xla_memory(program: LocalProgram) -> Memory:
    """The memory of a program of plain StableHLO, as `--lower=target=stablehlo` writes it."""
    program = replace(program, entry=_with_copies(program.entry))
    fused = fused_ops(program.entry.blocks)
    program = breadth_first(program, lambda op: id(op) in fused)
    fused = fused_ops(program.entry.blocks)
    flat = flatten(program, lambda op: id(op) in fused)
    return memory_of_steps(
        flat,
        program.entry,
        is_elementwise,
        _copied,
        results_first=True,
        in_pieces=lambda op: op.name == _EXCHANGE,
    )


def _with_copies(function: Function) -> Function:
    """The function, in which what is updated is needed by slices of the update, too.

    XLA computes the update once more for each slice, in one op with it. So the update is not in
    place, but of a copy.
    """
    return replace(function, blocks=tuple(map(_block_with_copies, function.blocks)))


def _block_with_copies(block: Block) -> Block:
    updated = {op.results[0].number: op.operands[0] for op in block.ops if op.name == _UPDATE}
    reads = Counter(value.number for op in block.ops for value in dict.fromkeys(op.reads))
    ops = []
    for op in block.ops:
        target = updated.get(op.operands[0].number) if op.name == _SLICE else None
        if target is not None and reads[op.operands[0].number] > 1:
            op = replace(op, captured=(*op.captured, target))
        callee = _with_copies(op.callee) if op.callee else None
        if op.blocks or callee:
            op = replace(op, blocks=tuple(map(_block_with_copies, op.blocks)), callee=callee)
        ops.append(op)
    return Block(block.arguments, tuple(ops))


def _copied(op: Op) -> int:
    """The bytes that are copied before or after a collective, in a layout that suits it."""
    if op.name == _EXCHANGE:  # its operand is cut to pieces before
        return sum(each.bytes for each in op.operands)
    for name, value in (
        ("stablehlo.all_gather", op.results),
        ("stablehlo.reduce_scatter", op.operands),
    ):
        if op.name == name and _joined_dim(op) != 0:
            return sum(each.bytes for each in value)
    return 0


def _joined_dim(op: Op) -> int | None:
    """The first dimension in which the operand's and the result's sizes differ."""
    operand, result = op.operands[0].tensor, op.results[0].tensor
    if operand is None or result is None:
        return None
    sizes = zip(operand.shape, result.shape, strict=True)
    return next((dim for dim, (one, other) in enumerate(sizes) if one != other), 0)
