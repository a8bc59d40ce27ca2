"""Lay ops otherwise: what that costs, and the IR of it.

An operand that a reshard brought may come straight from where it lay before; a result goes straight
to where a reshard took it. What others use stays as it is.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.mesh.mesh_collectives import read_collective, write_steps
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES, is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered import itemsize
from shard_dialect.model import Grid, Sharding
from shard_dialect.passes.materialize.choose_op_sharding import FLOPS_PER_BYTE
from shard_dialect.passes.optimize.op_sharding import OpSharding
from shard_dialect.planner import Plan, bytes_moved, plan


@dataclass(frozen=True, slots=True)
class Change:
    """What a rewrite adds for each device; less is better, in the order of the fields."""

    moved: int = 0
    """Bytes."""
    flops: float = 0
    """Of products."""
    elements: int = 0
    """Worked on."""

    def __add__(self, other: Change) -> Change:
        return Change(
            self.moved + other.moved, self.flops + other.flops, self.elements + other.elements
        )

    @property
    def key(self) -> tuple[float, int]:
        return self.moved + self.flops / FLOPS_PER_BYTE, self.elements

    @property
    def is_better(self) -> bool:
        return self.moved <= 0 and self.key < (0, 0)


def is_used(value: ir.Value) -> bool:
    return any(True for _ in value.uses)


def users(value: ir.Value) -> list[ir.Operation]:
    """The different ops that use `value`, but for reshards that are replaced already."""
    found: list[ir.Operation] = []
    made: set[ir.Value] = set()  # by those found, which it is quicker to look up
    for use in value.uses:
        op = use.owner.operation
        if _is_replaced(op):
            continue
        if len(op.results):
            if op.results[0] in made:
                continue
            made.add(op.results[0])
        elif op in found:
            continue
        found.append(op)
    return found


def is_only_for(value: ir.Value, op: ir.Operation) -> bool:
    """Whether `op`, which uses `value`, is its only user."""
    return all(use.owner.operation == op or _is_replaced(use.owner.operation) for use in value.uses)


def _is_replaced(op: ir.Operation) -> bool:
    return op.name in COLLECTIVES and not is_used(op.results[0])


def reshard_before(op: ir.Operation, value: ir.Value) -> ir.Operation | None:
    """The reshard of the same block that makes `value`, if one does.

    One in front of a loop is done once, what is in the loop each time.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or not is_reshard(owner.operation):
        return None
    return owner.operation if owner.operation.block == op.block else None


@dataclass
class Resharder:
    """Ops of one grid laid otherwise. Prices first, then `op` by `op` in their order."""

    shardings: Shardings
    grid: Grid
    _made: dict[tuple[ir.Value, Sharding], ir.Value] = field(default_factory=dict)
    _bytes: dict[ir.Value, int] = field(default_factory=dict)

    def lies(self, value: ir.Value) -> Sharding:
        return self.shardings.lies(value.type, self.grid)

    def plan(self, value: ir.Value, source: Sharding, target: Sharding) -> Plan:
        shape, size = tuple(value.type.shape), itemsize(value.type.element_type)
        return plan(source, target, shape, size, self.grid, False)

    def bytes_between(self, value: ir.Value, source: Sharding, target: Sharding) -> int:
        return self.plan(value, source, target).bytes_moved

    def bytes_of(self, reshard: ir.Operation) -> int:
        made = reshard.results[0]
        if made not in self._bytes:
            self._bytes[made] = self._bytes_of(reshard)
        return self._bytes[made]

    def _bytes_of(self, reshard: ir.Operation) -> int:
        found = read_collective(reshard)
        value = reshard.operands[0]
        shape, size = tuple(value.type.shape), itemsize(value.type.element_type)
        return bytes_moved(found.steps, found.source, shape, size, self.grid)

    def operands_change(
        self, op: ir.Operation, now: OpSharding, then: OpSharding, laid: Container[ir.Value] = ()
    ) -> Change:
        """What the operands of `op` add; those in `laid` lie already as they should."""
        moved = 0
        needs: dict[ir.Value, set[Sharding]] = {}
        for value, sharding in zip(op.operands, then.operands, strict=True):
            if sharding is not None and value not in laid:
                needs.setdefault(value, set()).add(sharding)
        for value, targets in needs.items():
            reshard = reshard_before(op, value)
            if reshard is not None and is_only_for(value, op):
                moved -= self.bytes_of(reshard)
            moved += sum(self._to_bring(op, value, target) for target in targets)
        return Change(moved, then.flops - now.flops, then.elements - now.elements)

    def _to_bring(self, op: ir.Operation, value: ir.Value, target: Sharding) -> int:
        if self._may_be_made(value, target):
            return 0
        source = self._source(op, value, target)
        return self.bytes_between(source, self.lies(source), target)

    def _source(self, op: ir.Operation, value: ir.Value, target: Sharding) -> ir.Value:
        """What to bring to `target` for `op`: `value`, or what the reshard before it took.

        The latter where the reshard is for `op` alone, which then needs it no more.
        """
        reshard = reshard_before(op, value)
        if reshard is None:
            return value
        source = reshard.operands[0]
        if is_only_for(value, op):
            return source
        here = self.bytes_between(value, self.lies(value), target)
        there = self.bytes_between(source, self.lies(source), target)
        return value if here < there else source

    def bytes_out(
        self, value: ir.Value, made: Sharding, inside: Sequence[ir.Operation] = ()
    ) -> int:
        """What it adds to bring `value` from `made` to its users, but for those `inside`."""
        moved = 0
        outside = [user for user in users(value) if user not in inside]
        if any(not is_reshard(user) for user in outside):
            moved += self.bytes_between(value, made, self.lies(value))
        for user in outside:
            if is_reshard(user):
                target = self.lies(user.results[0])
                moved += self.bytes_between(value, made, target) - self.bytes_of(user)
        return moved

    def do(self, op: ir.Operation, then: OpSharding) -> None:
        """Lay `op` so; its results are not brought anywhere."""
        with ir.InsertionPoint(op), op.location:
            for place, sharding in enumerate(then.operands):
                if sharding is not None:
                    op.operands[place] = self._bring(op, op.operands[place], sharding)
        for result, made in zip(op.results, then.results, strict=True):
            if made is not None:
                result.set_type(self.shardings.typed(result.type, made))

    def bring_from(self, reshard: ir.Operation, target: Sharding) -> None:
        """Have the tensor of `reshard` lie as `target`, from where it came, at this point."""
        source = reshard.operands[0]
        made = source if self.lies(source) == target else self._write(source, target)
        self._made[reshard.results[0], target] = made

    def finish(
        self, op: ir.Operation, before: OpSharding, inside: Sequence[ir.Operation] = ()
    ) -> None:
        """Bring the results of `op` where users want them that are not `inside`.

        They lay as `before`.
        """
        for value, old in zip(op.results, before.results, strict=True):
            if old is None or self.lies(value) == old:
                continue
            given = [user for user in users(value) if user not in inside]
            with ir.InsertionPoint.after(op), op.location:
                if any(not is_reshard(user) for user in given):
                    self._replace(value, [u for u in given if not is_reshard(u)], old)
                for user in given:
                    if is_reshard(user):
                        target = self.lies(user.results[0])
                        with ir.InsertionPoint(user), user.location:
                            made = self._write(value, target)
                        user.results[0].replace_all_uses_with(made)

    def _replace(self, value: ir.Value, where: list[ir.Operation], target: Sharding) -> None:
        made = self._write(value, target)
        for user in where:
            for place, operand in enumerate(user.operands):
                if operand == value:
                    user.operands[place] = made

    def _bring(self, op: ir.Operation, value: ir.Value, target: Sharding) -> ir.Value:
        if self.lies(value) == target:
            return value
        if (value, target) not in self._made:
            self._made[value, target] = self._new(op, value, target)
        return self._made[value, target]

    def _new(self, op: ir.Operation, value: ir.Value, target: Sharding) -> ir.Value:
        if self._may_be_made(value, target):
            owner = value.owner.operation
            empty = build.empty(self.shardings.typed(value.type, target)).results[0]
            if owner.name == "tensor.empty":
                return empty
            return build.fill(owner.operands[0], empty).results[0]
        return self._write(self._source(op, value, target), target)

    def _may_be_made(self, value: ir.Value, target: Sharding) -> bool:
        """Whether `value` holds nothing that came from elsewhere, and can be made anew so."""
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in ("tensor.empty", "linalg.fill"):
            return False
        return not target.partial or reductions.may_be_partial(owner.operation, target.reduction)

    def _write(self, value: ir.Value, target: Sharding) -> ir.Value:
        source = self.lies(value)
        steps = self.plan(value, source, target).steps
        return write_steps(steps, value, source, self.shardings)
