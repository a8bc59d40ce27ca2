"""Collectives begin as soon as their operand is there, and are waited for where they are needed.

    %1 = shard.all_reduce %0                  %s = "mesh.start"(%0) {collective = {...}}
    %2 = math.exp %x                          %2 = math.exp %x
    %3 = arith.addf %1, %2                    %1 = "mesh.done"(%s)
                                              %3 = arith.addf %1, %2

The devices talk while they compute what stands in between. Where nothing does, a collective stays
one op. In the local form; every lowering target of `--lower` does the two halves.
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
    local_functions,
    made_at,
    needed_at,
)

_IDLE = (*build.CONSTANTS, "tensor.empty", "mesh.start", "mesh.done")
"""Ops that are no work to overlap with."""


@dataclass(frozen=True)
class OverlapCollectives(Pass):
    """Split collectives into start and done, around what can be computed meanwhile."""

    name = "overlap-collectives"

    def rewrite(self, module: ir.Operation) -> None:
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
    after = {value: at + 1 for value, at in made_at(ops).items()}
    needed = needed_at(ops)
    for at, op in enumerate(ops):
        if not _communicates(op):
            continue
        begin, end = after.get(op.operands[0], 0), needed.get(op.results[0], 0)
        if not any(_is_work(each) for each in order[begin:end]):
            continue
        order[at] = None  # what begins there begins in front of the next that is left
        first, user = next(filter(None, order[begin:])), order[end]
        assert user is not None, "a user is split only after what it needs"
        done = _split(op, first, user)
        after[done] = end


def _is_work(op: ir.Operation | None) -> bool:
    return op is not None and op.name not in _IDLE and not _communicates(op)


def _split(op: ir.Operation, first: ir.Operation, user: ir.Operation) -> ir.Value:
    """Begin `op` in front of `first`, and wait for it in front of `user`."""
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
