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

from collections.abc import Iterator

from shard_dialect.analysis.costs.flat_program import flatten
from shard_dialect.analysis.costs.local_ops import Block, LocalProgram, Op, Value
from shard_dialect.analysis.costs.memory import Memory, memory_of_steps
from shard_dialect.analysis.costs.op_flops import STABLEHLO_ELEMENTWISE

_COMPUTES = frozenset(f"stablehlo.{name}" for name in (*STABLEHLO_ELEMENTWISE, "convert"))
_MOVES = frozenset(
    f"stablehlo.{name}"
    for name in "broadcast broadcast_in_dim concatenate dynamic_slice gather iota pad reverse "
    "slice transpose".split()
)
_COSTLY = frozenset(
    f"stablehlo.{name}"
    for name in "atan2 cbrt cosine divide exponential exponential_minus_one log log_plus_one "
    "logistic power remainder rsqrt sine sqrt tan tanh".split()
)
"""Ops that XLA does not compute once for each reader."""
_FUSED_INTO = _COMPUTES | _MOVES | {"stablehlo.dynamic_update_slice", "stablehlo.reduce"}
_VIEW = "stablehlo.reshape"


def xla_memory(program: LocalProgram) -> Memory:
    """The memory of a program of plain StableHLO, as `--lower=target=stablehlo` writes it."""
    fused = set(_fused(program.entry.blocks))
    flat = flatten(program, lambda op: id(op) in fused)
    return memory_of_steps(
        flat, program.entry, lambda op: op.name in _COMPUTES, _copied, results_first=True
    )


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


def _fused(blocks: tuple[Block, ...]) -> Iterator[int]:
    """The ids of the ops whose results are not stored."""
    for block in blocks:
        readers = _readers(block)
        for op in block.ops:
            yield from _fused(op.blocks)
            if op.callee:
                yield from _fused(op.callee.blocks)
            if op.name not in _COMPUTES | _MOVES:
                continue
            found = list(_behind_views(op.results[0], readers))
            if not found or any(each.name not in _FUSED_INTO for each in found):
                continue
            if len(found) == 1 or op.name not in _COSTLY:
                yield id(op)


def _readers(block: Block) -> dict[int, list[Op]]:
    """The ops of the block that read each value, themselves or in their regions."""
    readers: dict[int, list[Op]] = {}

    def add(reader: Op, op: Op) -> None:
        for value in dict.fromkeys(op.reads):
            readers.setdefault(value.number, []).append(reader)
        for inner in op.blocks:
            for each in inner.ops:
                add(reader, each)

    for op in block.ops:
        add(op, op)
    return readers


def _behind_views(value: Value, readers: dict[int, list[Op]]) -> Iterator[Op]:
    for op in readers.get(value.number, ()):
        if op.name == _VIEW:
            yield from _behind_views(op.results[0], readers)
        else:
            yield op
