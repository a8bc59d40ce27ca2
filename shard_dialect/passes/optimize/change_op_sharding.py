"""Change the shardings of ops: the cost of it, and the rewrite.

An operand that a reshard produces may be resharded from that reshard's source directly. A result
that a reshard takes is resharded to that reshard's target directly. Values for other users keep
their sharding.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.mesh.mesh_collectives import read_collective, write_steps
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES, is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.model import Grid, Sharding
from shard_dialect.passes.materialize.choose_op_sharding import FLOPS_PER_BYTE
from shard_dialect.passes.optimize.op_sharding import OpSharding
from shard_dialect.planner import Plan, bytes_moved, plan


@dataclass(frozen=True, slots=True)
class Change:
    """What a rewrite adds for each device; less is better, in the order of the fields."""

    bytes_moved: int = 0
    """The bytes moved."""
    flops: float = 0
    """The floating-point operations of products."""
    elements: int = 0
    """The elements that ops compute."""

    def __add__(self, other: Change) -> Change:
        return Change(
            self.bytes_moved + other.bytes_moved,
            self.flops + other.flops,
            self.elements + other.elements,
        )

    @property
    def key(self) -> tuple[float, int]:
        """The cost to compare changes by: bytes, with FLOPs as bytes, then elements."""
        return self.bytes_moved + self.flops / FLOPS_PER_BYTE, self.elements

    @property
    def is_better(self) -> bool:
        """Whether the change moves no more bytes, and costs less."""
        return self.bytes_moved <= 0 and self.key < (0, 0)


def is_used(value: ir.Value) -> bool:
    """Whether the value has a use."""
    return any(True for _ in value.uses)


def users(value: ir.Value) -> list[ir.Operation]:
    """The distinct ops that use `value`, without the reshards that are already replaced."""
    user_ops: list[ir.Operation] = []
    first_results: set[ir.Value] = (
        set()
    )  # first results of the found ops: looking them up is faster
    for use in value.uses:
        op = use.owner.operation
        if _is_replaced(op):
            continue
        if len(op.results):
            if op.results[0] in first_results:
                continue
            first_results.add(op.results[0])
        elif op in user_ops:
            continue
        user_ops.append(op)
    return user_ops


def is_only_for(value: ir.Value, op: ir.Operation) -> bool:
    """Whether `op`, which uses `value`, is its only user."""
    return all(use.owner.operation == op or _is_replaced(use.owner.operation) for use in value.uses)


def _is_replaced(op: ir.Operation) -> bool:
    return op.name in COLLECTIVES and not is_used(op.results[0])


def reshard_before(op: ir.Operation, value: ir.Value) -> ir.Operation | None:
    """The reshard in the block of `op` that defines `value`, if one does.

    A reshard before a loop runs once; moved into the loop it would run in each iteration.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or not is_reshard(owner.operation):
        return None
    return owner.operation if owner.operation.block == op.block else None


@dataclass
class Resharder:
    """Changes the shardings of ops on one grid: first the costs, then op by op in their order."""

    shardings: Shardings
    grid: Grid
    _resharded: dict[tuple[ir.Value, Sharding], ir.Value] = field(default_factory=dict)
    _bytes: dict[ir.Value, int] = field(default_factory=dict)

    def sharding_of(self, value: ir.Value) -> Sharding:
        """The sharding of a value by its type."""
        return self.shardings.sharding_of(value.type, self.grid)

    def plan(self, value: ir.Value, source: Sharding, target: Sharding) -> Plan:
        """The reshard plan of a value from `source` to `target`."""
        shape, size = tuple(value.type.shape), itemsize(value.type.element_type)
        return plan(source, target, shape, size, self.grid, False)

    def bytes_between(self, value: ir.Value, source: Sharding, target: Sharding) -> int:
        """The bytes that a reshard from `source` to `target` moves."""
        return self.plan(value, source, target).bytes_moved

    def bytes_of(self, reshard: ir.Operation) -> int:
        """The bytes that an existing reshard moves."""
        resharded = reshard.results[0]
        if resharded not in self._bytes:
            self._bytes[resharded] = self._bytes_of(reshard)
        return self._bytes[resharded]

    def _bytes_of(self, reshard: ir.Operation) -> int:
        collective = read_collective(reshard)
        value = reshard.operands[0]
        shape, size = tuple(value.type.shape), itemsize(value.type.element_type)
        return bytes_moved(collective.steps, collective.source, shape, size, self.grid)

    def operands_change(
        self, op: ir.Operation, now: OpSharding, then: OpSharding, done: Container[ir.Value] = ()
    ) -> Change:
        """What resharding the operands of `op` adds; the values in `done` are resharded already."""
        extra_bytes = 0
        needs: dict[ir.Value, set[Sharding]] = {}
        for value, sharding in zip(op.operands, then.operands, strict=True):
            if sharding is not None and value not in done:
                needs.setdefault(value, set()).add(sharding)
        for value, targets in needs.items():
            reshard = reshard_before(op, value)
            if reshard is not None and is_only_for(value, op):
                extra_bytes -= self.bytes_of(reshard)
            extra_bytes += sum(self._bytes_to(op, value, target) for target in targets)
        return Change(extra_bytes, then.flops - now.flops, then.elements - now.elements)

    def _bytes_to(self, op: ir.Operation, value: ir.Value, target: Sharding) -> int:
        if self._may_be_created(value, target):
            return 0
        source = self._source(op, value, target)
        return self.bytes_between(source, self.sharding_of(source), target)

    def _source(self, op: ir.Operation, value: ir.Value, target: Sharding) -> ir.Value:
        """The value to reshard to `target` for `op`: `value`, or the source of the reshard before.

        The latter where `op` is the reshard's only user, since the reshard is then dropped.
        """
        reshard = reshard_before(op, value)
        if reshard is None:
            return value
        source = reshard.operands[0]
        if is_only_for(value, op):
            return source
        here = self.bytes_between(value, self.sharding_of(value), target)
        there = self.bytes_between(source, self.sharding_of(source), target)
        return value if here < there else source

    def bytes_out(
        self, value: ir.Value, sharding: Sharding, inside: Sequence[ir.Operation] = ()
    ) -> int:
        """The bytes added by resharding `value` from `sharding` for its users not in `inside`."""
        extra_bytes = 0
        outside = [user for user in users(value) if user not in inside]
        if any(not is_reshard(user) for user in outside):
            extra_bytes += self.bytes_between(value, sharding, self.sharding_of(value))
        for user in outside:
            if is_reshard(user):
                target = self.sharding_of(user.results[0])
                extra_bytes += self.bytes_between(value, sharding, target) - self.bytes_of(user)
        return extra_bytes

    def do(self, op: ir.Operation, then: OpSharding) -> None:
        """Reshard the operands of `op` and set its results' types, without resharding results."""
        with ir.InsertionPoint(op), op.location:
            for number, sharding in enumerate(then.operands):
                if sharding is not None:
                    op.operands[number] = self._bring(op, op.operands[number], sharding)
        for result, new_sharding in zip(op.results, then.results, strict=True):
            if new_sharding is not None:
                result.set_type(self.shardings.typed(result.type, new_sharding))

    def bring_from(self, reshard: ir.Operation, target: Sharding) -> None:
        """Reshard the source of `reshard` to `target`, at the insertion point."""
        source = reshard.operands[0]
        resharded = source if self.sharding_of(source) == target else self._write(source, target)
        self._resharded[reshard.results[0], target] = resharded

    def finish(
        self, op: ir.Operation, before: OpSharding, inside: Sequence[ir.Operation] = ()
    ) -> None:
        """Reshard the results of `op` back from `then` for the users that are not in `inside`.

        `before` has the shardings that these users expect.
        """
        for value, old in zip(op.results, before.results, strict=True):
            if old is None or self.sharding_of(value) == old:
                continue
            outside_users = [user for user in users(value) if user not in inside]
            with ir.InsertionPoint.after(op), op.location:
                if any(not is_reshard(user) for user in outside_users):
                    self._replace(value, [u for u in outside_users if not is_reshard(u)], old)
                for user in outside_users:
                    if is_reshard(user):
                        target = self.sharding_of(user.results[0])
                        with ir.InsertionPoint(user), user.location:
                            resharded = self._write(value, target)
                        user.results[0].replace_all_uses_with(resharded)

    def _replace(self, value: ir.Value, where: list[ir.Operation], target: Sharding) -> None:
        resharded = self._write(value, target)
        for user in where:
            for number, operand in enumerate(user.operands):
                if operand == value:
                    user.operands[number] = resharded

    def _bring(self, op: ir.Operation, value: ir.Value, target: Sharding) -> ir.Value:
        if self.sharding_of(value) == target:
            return value
        if (value, target) not in self._resharded:
            self._resharded[value, target] = self._new(op, value, target)
        return self._resharded[value, target]

    def _new(self, op: ir.Operation, value: ir.Value, target: Sharding) -> ir.Value:
        if self._may_be_created(value, target):
            owner = value.owner.operation
            empty = build.empty(self.shardings.typed(value.type, target)).results[0]
            if owner.name == "tensor.empty":
                return empty
            return build.fill(owner.operands[0], empty).results[0]
        return self._write(self._source(op, value, target), target)

    def _may_be_created(self, value: ir.Value, target: Sharding) -> bool:
        """Whether `value` is an empty or filled tensor that can be created as `target` anew."""
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in ("tensor.empty", "linalg.fill"):
            return False
        return not target.partial or reductions.may_be_partial(owner.operation, target.reduction)

    def _write(self, value: ir.Value, target: Sharding) -> ir.Value:
        source = self.sharding_of(value)
        steps = self.plan(value, source, target).steps
        return write_steps(steps, value, source, self.shardings)
