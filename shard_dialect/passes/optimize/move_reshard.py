"""Move a reshard past a region of ops: its users, their users, and so on.

    %1 = "mesh.all_gather"(%0)              the region of %1 with the sharding of %0:
    %2 = stablehlo.multiply %1, %1            %2, %3 on shards,
    %3 = stablehlo.add %1, %2                 and %3 gathered for its users outside
    return %3

The region grows op by op, in the order of the block. After each op, its cost is what resharding the
other operands on entry and the results on exit adds. The cheapest of these regions is rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Sharding
from shard_dialect.passes.optimize.change_op_sharding import Change, Resharder, users
from shard_dialect.passes.optimize.op_sharding import OpSharding, OpShardingFinder

LARGEST = 16
"""The largest number of ops in a region."""


def move_past(
    reshard: ir.Operation, target: Sharding, shardings: Shardings, *, narrow: bool = False
) -> bool:
    """Let ops after `reshard` use its tensor in the sharding `target`, as far as that is cheapest.

    Returns whether anything changed. With `narrow`, conversions may round partial sums.
    """
    grid = shardings.grid(target.grid)
    region = _Region(
        reshard, target, Resharder(shardings, grid), OpShardingFinder(shardings, narrow)
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
    target: Sharding
    resharder: Resharder
    finder: OpShardingFinder
    ops: list[tuple[ir.Operation, OpSharding, OpSharding]] = field(default_factory=list)
    """The ops of the region, each with its present and its new sharding."""
    values: dict[ir.Value, Sharding] = field(default_factory=dict)
    """The tensors of the region whose sharding changes, with the new one."""

    def grow(self) -> Iterator[tuple[int, Change]]:
        """Add ops one by one; yield the number of ops, and what rewriting them would change."""
        self.values[self.reshard.results[0]] = self.target
        total = Change()
        waiting = self._users_of(self.reshard.results[0])
        while waiting and len(self.ops) < LARGEST:
            op = _first(waiting)
            waiting.remove(op)
            op_shardings = self._shardings_of(op)
            if op_shardings is None:
                continue
            now, then = op_shardings
            total += self.resharder.operands_change(op, now, then, self.values)
            self.ops.append((op, now, then))
            for result, sharding in zip(op.results, then.results, strict=True):
                if sharding is not None:
                    self.values[result] = sharding
                    waiting += [each for each in self._users_of(result) if each not in waiting]
            yield len(self.ops), total + Change(self._out(len(self.ops)))

    def _users_of(self, value: ir.Value) -> list[ir.Operation]:
        block = self.reshard.block
        return [op for op in users(value) if op.block == block and not is_reshard(op)]

    def _shardings_of(self, op: ir.Operation) -> tuple[OpSharding, OpSharding] | None:
        """The present sharding of `op`, and the one with its operands of the region resharded."""
        grid = self.resharder.grid
        numbers = [number for number, value in enumerate(op.operands) if value in self.values]
        now = self.finder.now(op, grid)
        sharding = self.values[op.operands[numbers[0]]]
        then = self.finder.with_operand(op, numbers[0], sharding, grid)
        if now is None or then is None:
            return None
        if any(then.operands[number] != self.values[op.operands[number]] for number in numbers):
            return None
        return now, then

    def _out(self, count: int) -> int:
        """The bytes that it adds to reshard the first `count` ops' results for users outside."""
        inside = [op for op, _, _ in self.ops[:count]]
        resharded = self.reshard.results[0]
        origin = self.reshard.operands[0]
        extra_bytes = self.resharder.bytes_between(
            origin, self.resharder.sharding_of(origin), self.target
        )
        if all(user in inside for user in users(resharded)):
            extra_bytes -= self.resharder.bytes_of(self.reshard)
        for op in inside:
            for result in op.results:
                if result in self.values:
                    extra_bytes += self.resharder.bytes_out(result, self.values[result], inside)
        return extra_bytes

    def do(self, count: int) -> None:
        """Rewrite the first `count` ops to their new sharding."""
        if not count:
            return
        inside = [op for op, _, _ in self.ops[:count]]
        with ir.InsertionPoint(self.reshard), self.reshard.location:
            self.resharder.bring_from(self.reshard, self.target)
        for op, _, then in self.ops[:count]:
            self.resharder.do(op, then)
        for op, now, _ in self.ops[:count]:
            self.resharder.finish(op, now, inside)


def _first(ops: list[ir.Operation]) -> ir.Operation:
    """The first of `ops` in their block."""
    first = ops[0]
    for op in ops[1:]:
        if op.is_before_in_block(first):
            first = op
    return first
