"""What the passes on collectives have in common: they try each reshard until none gets better."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.collectives import read_collective
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh import COLLECTIVES, is_reshard
from shard_dialect.ir.shardings import Shardings
from shard_dialect.ir.walk import walk
from shard_dialect.model import Sharding
from shard_dialect.passes.base import Pass
from shard_dialect.passes.collectives.lay import Lay, Layer
from shard_dialect.passes.collectives.relay import Change, Relay, is_used, users
from shard_dialect.passes.consistency import check_can_be_cut

LONGEST = 16
"""How many ops a reshard is moved past at once, to where it is cheaper."""


@dataclass(frozen=True)
class CollectivePass(Pass):
    """A rewrite of the distributed form, tried on each reshard until none gets better."""

    def rewrite(self, module: ir.Operation) -> None:
        shardings = Shardings.of(module)
        for handle in functions_of(module):
            if form_of(handle) == "distributed":
                check_can_be_cut(handle, shardings)
                self.improve(handle, shardings)

    def improve(self, function: ir.Operation, shardings: Shardings) -> bool:
        """Rewrite `function` while that helps; whether anything was done."""
        ever, again = False, True
        while again:
            again = False
            for op in walk(function):
                again |= self._try(op, shardings)
            drop_unused(function)
            ever |= again
        return ever

    def _try(self, op: ir.Operation, shardings: Shardings) -> bool:
        return is_reshard(op) and is_used(op.results[0]) and self.improve_at(op, shardings)

    @abstractmethod
    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Try the rewrite at one reshard; what it replaces stays, without a use."""


def drop_unused(function: ir.Operation) -> None:
    """Erase reshards, and what they were made for, that nothing uses."""
    for op in reversed(walk(function)):
        if op.name in (*COLLECTIVES, "arith.constant", "tensor.empty", "linalg.fill") and not any(
            is_used(result) for result in op.results
        ):
            op.erase()


def move_past(
    reshard: ir.Operation, wanted: Sharding, shardings: Shardings, *, narrow: bool = False
) -> bool:
    """Let the ops after `reshard` work on its tensor lying as `wanted`, as far as that is best.

    Each of several users is tried for itself. Whether anything was done.
    """
    return any(
        _move_past(reshard, user, wanted, shardings, narrow=narrow)
        for user in users(reshard.results[0])
    )


def _move_past(
    reshard: ir.Operation,
    user: ir.Operation,
    wanted: Sharding,
    shardings: Shardings,
    *,
    narrow: bool,
) -> bool:
    grid = shardings.grid(wanted.grid)
    relay, layer = Relay(shardings, grid), Layer(shardings, narrow)
    value, through = reshard.results[0], None
    path: list[tuple[ir.Operation, Lay, Lay]] = []
    total, best, length = Change(), Change(), 0
    block = reshard.block
    while len(path) < LONGEST and not is_reshard(user) and user.block == block:
        place = list(user.operands).index(value)
        now, then = layer.now(user, grid), layer.with_operand(user, place, wanted, grid)
        if now is None or then is None:
            break
        path.append((user, now, then))
        total += relay.operands_change(user, now, then, through)
        after = total + relay.results_change(user, then)
        if after.is_better and (length == 0 or after.key <= best.key):
            best, length = after, len(path)
        made = then.results[0] if len(user.results) == 1 else None
        if made is None or len(users(user.results[0])) != 1:
            break
        value = through = user.results[0]
        wanted = made
        user = users(value)[0]
    for op, _, then in path[:length]:
        relay.do(op, then)
    if length:
        op, now, _ = path[length - 1]
        relay.finish(op, list(now.results))
    return bool(length)


def sources(reshard: ir.Operation) -> tuple[Sharding, Sharding]:
    """How the tensor of a reshard lies before it, and after it."""
    found = read_collective(reshard)
    return found.source, found.target
