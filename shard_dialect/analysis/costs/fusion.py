"""Which ops a compiler fuses into their readers, so that their results are not stored.

    %a = stablehlo.exponential %x          fused, as its one reader is elementwise
    %b = stablehlo.add %a, %x              stored, as a product reads it

The rules are XLA's, where it compiles for CPUs: an op that moves or computes elements is fused if
only such ops and reductions read it, and a costly one only if there is one reader.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.analysis.costs.local_ops import Block, Op, Value
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
_FUSED_INTO = _MOVES | {"stablehlo.dynamic_update_slice", "stablehlo.reduce"}
_VIEW = "stablehlo.reshape"


def is_elementwise(op: Op) -> bool:
    """Whether each element of the results comes of one element of each operand."""
    return op.name in _COMPUTES or op.name.startswith(("arith.", "math."))


def fused_ops(blocks: tuple[Block, ...]) -> frozenset[int]:
    """The ids of the ops of blocks, and of all inside and called, whose results are not stored."""
    return frozenset(_fused(blocks))


def _fused(blocks: tuple[Block, ...]) -> Iterator[int]:
    for block in blocks:
        readers = _readers(block)
        for op in block.ops:
            yield from _fused(op.blocks)
            if op.callee:
                yield from _fused(op.callee.blocks)
            if not is_elementwise(op) and op.name not in _MOVES:
                continue
            found = list(_behind_views(op.results[0], readers))
            if not found or not all(
                is_elementwise(each) or each.name in _FUSED_INTO for each in found
            ):
                continue
            if len(found) == 1 or not (op.name in _COSTLY or op.name.startswith("math.")):
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
