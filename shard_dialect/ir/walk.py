"""Going through ops.

The bindings give ops as views of their own class, some of which hide `Operation.name` behind a
symbol's name (`FuncOp`); all our code holds plain `Operation`s.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.ir.bindings import ir


def operations(block: ir.Block) -> list[ir.Operation]:
    """The block's ops, in a list that stays valid while the block changes."""
    return [op.operation for op in block.operations]


def walk(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops inside `op`, each before those inside it."""
    for region in op.regions:
        for block in region.blocks:
            for inner in operations(block):
                yield inner
                yield from walk(inner)


def body(op: ir.Operation) -> ir.Block:
    """The first block of the op's first region."""
    return op.regions[0].blocks[0]
