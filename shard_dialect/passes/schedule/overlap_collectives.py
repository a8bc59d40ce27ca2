"""Start collectives as soon as their operand is available, and wait for them before the first use.

    %1 = shard.all_reduce %0                  %s = "mesh.start"(%0) {collective = {...}}
    %2 = math.exp %x                          %2 = math.exp %x
    %3 = arith.addf %1, %2                    %1 = "mesh.done"(%s)
                                              %3 = arith.addf %1, %2

The ops in between overlap with the communication. If there are none, a collective stays one op.
This is done in the local form; every lowering target of `--lower` supports the two ops.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.shard.local_collectives import described, read_local
from shard_dialect.ir.walk import operations
from shard_dialect.model import AllSlice, Mask
from shard_dialect.model.point_to_point import Receive, Send
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.schedule.collective_blocks import (
    blocks_of,
    defined_at,
    first_use_at,
    local_functions,
)

_IDLE = (*build.CONSTANTS, "tensor.empty", "mesh.start", "mesh.done")
"""Ops that do no work to overlap with."""


@dataclass(frozen=True)
class OverlapCollectives(Pass):
    """Split collectives into start and done, around the ops that can run meanwhile."""

    name = "overlap-collectives"

    def rewrite(self, module: ir.Operation) -> None:
        """Split the collectives of each function in the local form."""
        for handle in local_functions(module):
            for block in blocks_of(handle, _communicates):
                _overlap(block)


def _communicates(op: ir.Operation) -> bool:
    if op.name == "mesh.start" or not op.operands:
        return False
    read = read_local(op.name, op.attributes)
    return read is not None and not isinstance(read[1], AllSlice | Mask | Send | Receive)


def _overlap(block: ir.Block) -> None:
    ops = list(operations(block))
    order: list[ir.Operation | None] = [*ops]
    after = {value: at + 1 for value, at in defined_at(ops).items()}
    needed = first_use_at(ops)
    for at, op in enumerate(ops):
        if not _communicates(op):
            continue
        begin, end = after.get(op.operands[0], 0), needed.get(op.results[0], 0)
        if not any(_is_work(each) for each in order[begin:end]):
            continue
        order[at] = None  # what starts here starts before the next op that is left
        first, user = next(filter(None, order[begin:])), order[end]
        assert user is not None, "a user is split only after its operands"
        done = _split(op, first, user)
        after[done] = end


def _is_work(op: ir.Operation | None) -> bool:
    return op is not None and op.name not in _IDLE and not _communicates(op)


def _split(op: ir.Operation, first: ir.Operation, user: ir.Operation) -> ir.Value:
    """Start `op` before `first`, wait for it before `user`, and return the result."""
    type_ = op.results[0].type
    with op.location:
        with ir.InsertionPoint(first):
            what = {"collective": described(op)}
            started = build.create("mesh.start", [type_], [op.operands[0]], what).results[0]
        with ir.InsertionPoint(user):
            done = build.create("mesh.done", [type_], [started]).results[0]
    op.results[0].replace_all_uses_with(done)
    op.erase()
    return done
