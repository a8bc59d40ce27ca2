"""Iterates over ops.

The bindings return views of ops with classes of their own. Some classes (`FuncOp`) replace
`Operation.name` by the symbol's name, so our code uses plain `Operation`s. Their hash is one of
what an op contains: in a table or a set, an op is not found again once it has other operands. Keys
that stay are its results.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.ir.bindings import ir


def operations(block: ir.Block) -> list[ir.Operation]:
    """The block's ops, in a list that stays valid while others are added; see `walk`."""
    return [op.operation for op in block.operations]


def walk(op: ir.Operation) -> list[ir.Operation]:
    """The ops inside `op`, each before those inside it, in a list that stays valid.

    A loop erases none that it comes to later: each access makes a view of its own, and the views in
    the list do not know what was erased through others. The bodies of `linalg`'s named ops are
    skipped.
    """
    ops: list[ir.Operation] = []

    def note(inner: ir.Operation) -> ir.WalkResult:
        is_first = not ops  # `op` itself
        ops.append(inner)
        return _ADVANCE if is_first or has_own_body(inner.name) else _SKIP

    op.walk(note, ir.WalkOrder.PRE_ORDER)
    return ops[1:]


def has_own_body(name: str) -> bool:
    """Whether the op's name does not determine its regions: false for `linalg`'s named ops."""
    return not name.startswith("linalg.") or name in _WITH_BODY


_SKIP, _ADVANCE = ir.WalkResult.SKIP, ir.WalkResult.ADVANCE
_WITH_BODY = ("linalg.generic", "linalg.map", "linalg.reduce")


def blocks(op: ir.Operation) -> Iterator[ir.Block]:
    """All blocks in the op, without those of linalg ops."""
    for region in op.regions:
        for block in region:
            yield block
            for inner in operations(block):
                if not inner.name.startswith("linalg."):
                    yield from blocks(inner)


def body(op: ir.Operation) -> ir.Block:
    """The first block of the op's first region."""
    return op.regions[0].blocks[0]


def maker_of(value: ir.Value, *names: str) -> ir.Operation | None:
    """The op that makes a value, if it has one of these names; `None` for a block's argument."""
    is_one = not isinstance(value.owner, ir.Block) and (not names or value.owner.name in names)
    return value.owner.operation if is_one else None


def is_made_by(value: ir.Value, *names: str) -> bool:
    """Whether an op of one of these names makes a value."""
    return not isinstance(value.owner, ir.Block) and value.owner.name in names


def source_behind(value: ir.Value, *names: str) -> ir.Value:
    """What ops of these names, each of which reads the one before it first, make this value of."""
    while is_made_by(value, *names):
        value = value.owner.operands[0]
    return value
