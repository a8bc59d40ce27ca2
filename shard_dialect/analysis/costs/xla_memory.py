"""The memory of one device where XLA compiles the program, modelled: ops are fused as it does.

    %a = stablehlo.broadcast_in_dim %c           fused into its reader: not stored
    %b = stablehlo.multiply %x, %a               stored, over %x if nothing reads %x later
    %c = stablehlo.dot_general %b, %w            stored: products take their operands from memory

An op that moves or computes elements is not stored where only ops read it that XLA fuses it into; a
costly one only where there is one such reader. XLA copies what a collective joins or splits along
another dimension than the first. Its results have their memory from the beginning, and temporaries
may be in it. XLA also orders ops anew, which is not modelled: docs/limits.md has the differences
that were measured.
"""

from __future__ import annotations

from shard_dialect.analysis.costs.flat_program import flatten
from shard_dialect.analysis.costs.fusion import fused_ops, is_elementwise
from shard_dialect.analysis.costs.local_ops import LocalProgram, Op
from shard_dialect.analysis.costs.memory import Memory, memory_of_steps


def xla_memory(program: LocalProgram) -> Memory:
    """The memory of a program of plain StableHLO, as `--lower=target=stablehlo` writes it."""
    fused = fused_ops(program.entry.blocks)
    flat = flatten(program, lambda op: id(op) in fused)
    return memory_of_steps(flat, program.entry, is_elementwise, _copied, results_first=True)


def _copied(op: Op) -> int:
    """The bytes that are copied before or after a collective, in a layout that suits it."""
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
