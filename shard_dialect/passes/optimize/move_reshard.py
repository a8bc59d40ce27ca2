"""Move a reshard past the ops that use its tensor, and past those that use what they make.

    %1 = "mesh.all_gather"(%0)              the region of %1 laid as %0:
    %2 = stablehlo.multiply %1, %1            %2, %3 on shards,
    %3 = stablehlo.add %1, %2                 and %3 gathered for its users outside
    return %3

The region grows op by op, in the order of the block; after each its price is what it takes to bring
the other operands in, and the results out. The cheapest of these regions is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Sharding
from shard_dialect.passes.optimize.op_sharding import OpSharding, OpShardingFinder
from shard_dialect.passes.optimize.resharded_ops import Change, Resharder, users

LARGEST = 16
"""How many ops a region grows to."""


def move_past(
    reshard: ir.Operation, wanted: Sharding, shardings: Shardings, *, narrow: bool = False
) -> bool:
    """Let the ops behind `reshard` work on its tensor lying as `wanted`, as far as that is best.

    Whether anything was done. With `narrow`, conversions may round parts of sums.
    """
    grid = shardings.grid(wanted.grid)
    region = _Region(
        reshard, wanted, Resharder(shardings, grid), OpShardingFinder(shardings, narrow)
    )
    best, length = Change(), 0
    for size, change in region.grow():
        if change.is_better and (length == 0 or change.key <= best.key):
            best, length = change, size
    region.do(length)
    return bool(length)


@dataclass
class _Region:
    reshard: ir.Operation
    wanted: Sharding
    relay: Resharder
    layer: OpShardingFinder
    laid: list[tuple[ir.Operation, OpSharding, OpSharding]] = field(default_factory=list)
    """The ops, how they lie, and how they will."""
    values: dict[ir.Value, Sharding] = field(default_factory=dict)
    """What of the region's tensors lies otherwise, and how."""

    def grow(self) -> Iterator[tuple[int, Change]]:
        """The number of ops after each that is added, and what the region so far changes."""
        self.values[self.reshard.results[0]] = self.wanted
        total = Change()
        waiting = self._users_of(self.reshard.results[0])
        while waiting and len(self.laid) < LARGEST:
            op = _first(waiting)
            waiting.remove(op)
            found = self._lay(op)
            if found is None:
                continue
            now, then = found
            total += self.relay.operands_change(op, now, then, self.values)
            self.laid.append((op, now, then))
            for result, made in zip(op.results, then.results, strict=True):
                if made is not None:
                    self.values[result] = made
                    waiting += [each for each in self._users_of(result) if each not in waiting]
            yield len(self.laid), total + Change(self._out(len(self.laid)))

    def _users_of(self, value: ir.Value) -> list[ir.Operation]:
        block = self.reshard.block
        return [op for op in users(value) if op.block == block and not is_reshard(op)]

    def _lay(self, op: ir.Operation) -> tuple[OpSharding, OpSharding] | None:
        """How `op` lies, and how it does if all of its operands that are laid otherwise are so."""
        grid = self.relay.grid
        places = [place for place, value in enumerate(op.operands) if value in self.values]
        now = self.layer.now(op, grid)
        sharding = self.values[op.operands[places[0]]]
        then = self.layer.with_operand(op, places[0], sharding, grid)
        if now is None or then is None:
            return None
        if any(then.operands[place] != self.values[op.operands[place]] for place in places):
            return None
        return now, then

    def _out(self, count: int) -> int:
        """The bytes to bring what the first `count` ops make, and the reshard brought, outside."""
        inside = [op for op, _, _ in self.laid[:count]]
        whole = self.reshard.results[0]
        origin = self.reshard.operands[0]
        moved = self.relay.bytes_between(origin, self.relay.lies(origin), self.wanted)
        if all(user in inside for user in users(whole)):
            moved -= self.relay.bytes_of(self.reshard)
        for op in inside:
            for result in op.results:
                if result in self.values:
                    moved += self.relay.bytes_out(result, self.values[result], inside)
        return moved

    def do(self, count: int) -> None:
        """Lay the first `count` ops otherwise."""
        if not count:
            return
        inside = [op for op, _, _ in self.laid[:count]]
        with ir.InsertionPoint(self.reshard), self.reshard.location:
            self.relay.bring_from(self.reshard, self.wanted)
        for op, _, then in self.laid[:count]:
            self.relay.do(op, then)
        for op, now, _ in self.laid[:count]:
            self.relay.finish(op, now, inside)


def _first(ops: list[ir.Operation]) -> ir.Operation:
    """The first of `ops` in their block."""
    found = ops[0]
    for op in ops[1:]:
        if op.is_before_in_block(found):
            found = op
    return found
