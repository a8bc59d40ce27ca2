"""Going through ops.

The bindings give ops as views of their own class, some of which hide `Operation.name` behind a
symbol's name (`FuncOp`); all our code holds plain `Operation`s.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir


def operations(block: ir.Block) -> list[ir.Operation]:
    """The block's ops, in a list that stays valid while the block changes."""
    return [op.operation for op in block.operations]


def walk(op: ir.Operation) -> list[ir.Operation]:
    """The ops inside `op`, each before those inside it, in a list that stays valid.

    But for the scalar code in those of `linalg`'s ops whose name says what it is.
    """
    found: list[ir.Operation] = []

    def note(inner: ir.Operation) -> ir.WalkResult:
        is_first = not found  # `op` itself
        found.append(inner)
        return _ADVANCE if is_first or has_own_body(inner.name) else _SKIP

    op.walk(note, ir.WalkOrder.PRE_ORDER)
    return found[1:]


def has_own_body(name: str) -> bool:
    """Whether an op's regions hold more than its name says; of `linalg` few do."""
    return not name.startswith("linalg.") or name in _WITH_BODY


_SKIP, _ADVANCE = ir.WalkResult.SKIP, ir.WalkResult.ADVANCE
_WITH_BODY = ("linalg.generic", "linalg.map", "linalg.reduce")


def body(op: ir.Operation) -> ir.Block:
    """The first block of the op's first region."""
    return op.regions[0].blocks[0]
