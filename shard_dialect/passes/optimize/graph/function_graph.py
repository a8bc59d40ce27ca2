"""A function in the distributed form as a graph of Python objects, which rewrites change in place.

Each call into the bindings costs microseconds, and rewrites ask the same questions again and again.
So a function is read once, rewritten here, and written back once (`write_graph`).

The graph notes which values are looked at, and when each was changed, so that what was tried in
vain is not tried again before something that it looked at has changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import count

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.mesh_collectives import (
    Collective,
    is_on_every_grid,
    read_collective,
    step_attributes,
)
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES, TRANSFER, is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Block, Function, Kind, Op
from shard_dialect.ir.read_function import read_type
from shard_dialect.model import Sharding, Step
from shard_dialect.passes.optimize.graph.graph_elements import (
    Attributes,
    GraphBlock,
    GraphOp,
    GraphValue,
    InsertionPoint,
    OpSharding,
    use_operands,
)
from shard_dialect.planner import BYTES, Plan, Prices
from shard_dialect.rules.op_kinds import OpKind, OpKinds

_DROPPABLE = (*COLLECTIVES, "arith.constant", "tensor.empty", "linalg.fill")


class FunctionGraph:
    """A function in the distributed form, to be rewritten."""

    def __init__(self, function: Function, shardings: Shardings, prices: Prices = BYTES) -> None:
        self.shardings = shardings
        self.prices = prices
        self.retyped: dict[GraphValue, None] = {}
        """The values whose sharding has changed."""
        self.ops_with_new_operands: dict[GraphOp, None] = {}
        self.dropped: list[GraphOp] = []
        self.looked_at: set[GraphValue] = set()
        """The values of which somebody has asked for the sharding or the users."""
        self.failed: dict[tuple[Hashable, GraphOp], tuple[int, tuple[GraphValue, ...]]] = {}
        """When a rewrite was last tried in vain at a reshard, and what it looked at."""
        self._clock = count(1)
        self._shardings: dict[Sharding, Sharding] = {}
        self.plans: dict[tuple[Kind, Sharding, Sharding], Plan] = {}
        """The reshard plans of tensors of a kind, by source and target."""
        self.known_prices: dict[tuple[Kind, tuple[Step, ...], Sharding], int] = {}
        """The prices of collectives, by the tensor's kind and their source."""
        self.op_shardings: dict[Hashable, OpSharding | None] = {}
        """The shardings of ops, by their kinds and the shardings of their values."""
        self._op_kinds = OpKinds()
        self._collectives: dict[tuple[object, ...], Collective] = {}
        self._attributes: dict[tuple[Step, Sharding], tuple[str, Attributes]] = {}
        self._kinds: dict[ir.Type, tuple[Kind, Sharding | None]] = {}
        self._values = [self._read_value(each.handle) for each in function.values]
        self.blocks = [self._read_block(block) for block in function.blocks]
        for op in self.ops():
            if op.name == "arith.constant" and not op.results[0].kind.is_tensor:
                uses = sum(1 for _ in op.handle.results[0].uses)
                op.has_other_users = uses > sum(op.results[0].uses.values())

    def now(self) -> int:
        """The time, by the graph's clock."""
        return next(self._clock)

    def interned(self, sharding: Sharding) -> Sharding:
        """The sharding as one object: looking up equal objects is slower."""
        return self._shardings.setdefault(sharding, sharding)

    def _read_value(self, handle: ir.Value) -> GraphValue:
        kind, sharding = self._read_type(handle.type)
        return GraphValue(kind, sharding, handle=handle)

    def _read_type(self, type_: ir.Type) -> tuple[Kind, Sharding | None]:
        """The kind of the type without its sharding, and the sharding."""
        if type_ not in self._kinds:
            sharding = self.shardings.of_type(type_)
            if sharding is None:
                self._kinds[type_] = read_type(type_), None
            else:
                kind, _ = self._read_type(self.shardings.typed(type_, None))
                self._kinds[type_] = kind, self.interned(sharding)
        return self._kinds[type_]

    def _read_block(self, block: Block) -> GraphBlock:
        graph_block = GraphBlock()
        for op in block.ops:
            operands = [self._values[number] for number in op.operands]
            graph_op = self._read_op(op.name, op.handle, graph_block, operands)
            graph_op.results = [self._values[number] for number in op.results]
            for value in graph_op.results:
                value.owner = graph_op
            graph_op.blocks = [self._read_block(each) for each in op.blocks]
            graph_op.is_reshard = graph_op.is_collective and is_reshard(op.handle)
            graph_block.append(graph_op)
            self._read_captures(op)
        return graph_block

    def _read_op(
        self,
        name: str,
        handle: ir.Operation,
        block: GraphBlock | None,
        operands: Sequence[GraphValue | None],
    ) -> GraphOp:
        op = GraphOp(name, block, handle, handle, list(operands), operands_read=tuple(operands))
        if name in COLLECTIVES and block is not None:
            op.is_collective = True
            op.attributes = tuple(handle.attributes.items())
        use_operands(op)
        return op

    def _read_captures(self, op: Op) -> None:
        by_op: dict[int, dict[int, GraphValue]] = {}
        handles = {id(handle): handle for handle, _, _ in op.captures}
        for handle, number, value in op.captures:
            by_op.setdefault(id(handle), {})[number] = self._values[value]
        for key, captured in by_op.items():
            operands = [captured.get(number) for number in range(max(captured) + 1)]
            self._read_op(handles[key].name, handles[key], None, operands)

    def ops(self) -> list[GraphOp]:
        """The ops, each before those inside it."""
        return list(_ops_in(self.blocks))

    def state(self) -> int:
        """A number that is the same for the same ops on the same shardings, in the same order."""
        numbers: dict[GraphValue | None, int] = {None: -1}
        described = []
        for op in self.ops():
            operands = tuple([numbers.setdefault(each, len(numbers)) for each in op.operands])
            results = [
                (numbers.setdefault(each, len(numbers)), each.sharding) for each in op.results
            ]
            described.append((op.name, operands, tuple(results)))
        return hash(tuple(described))

    def users(self, value: GraphValue) -> list[GraphOp]:
        """The ops that use `value`, without the reshards that are already replaced."""
        self.looked_at.add(value)
        return [op for op in value.uses if not op.is_collective or op.results[0].uses]

    def is_only_for(self, value: GraphValue, op: GraphOp) -> bool:
        """Whether `op`, which uses `value`, is its only user."""
        self.looked_at.add(value)
        return len(value.uses) == 1 or all(user is op or user.is_unused for user in value.uses)

    def sharding_on(self, grid: str, value: GraphValue) -> Sharding:
        """The sharding of a tensor; one without is replicated on `grid`."""
        self.looked_at.add(value)
        if value.sharding is not None:
            return value.sharding
        assert value.kind.shape is not None, "only tensors of static shape are resharded"
        return self.interned(Sharding.replicated(grid, len(value.kind.shape)))

    def kind_of(self, op: GraphOp) -> OpKind:
        """The kind of an op that was read, by its types without shardings.

        The rule of a transfer of a part of a tensor is for propagation: nothing moves past it.
        """
        if op.kind is None and op.name == TRANSFER:
            op.kind = OpKind(None)
        if op.kind is None:
            operands = tuple([value.kind for value in op.operands if value is not None])
            results = tuple([value.kind for value in op.results])
            op.kind = self._op_kinds.kind_of(op.handle, op.name, operands, results)
        return op.kind

    def collective_of(self, reshard: GraphOp) -> Collective:
        """What a reshard does. Raises `ShardingError` where its attributes do not fit its types."""
        if reshard.collective is None:
            source, result = reshard.operands[0], reshard.results[0]
            assert source is not None, "a reshard has one operand, a tensor"
            attributes = reshard.attributes
            key = (reshard.name, attributes, source.kind, source.sharding, result.sharding)
            if key not in self._collectives:
                self._collectives[key] = read_collective(reshard.handle)
            reshard.collective = self._collectives[key]
        return reshard.collective

    def retype(self, value: GraphValue, sharding: Sharding) -> None:
        """Give a tensor another sharding."""
        value.sharding = None if sharding.is_replicated else self.interned(sharding)
        value.changed_at = self.now()
        self.retyped[value] = None

    def set_operand(self, op: GraphOp, number: int, value: GraphValue) -> None:
        """Let operand `number` of `op` be `value`."""
        old = op.operands[number]
        assert old is not None, "only what was read is replaced"
        old.uses[op] -= 1
        if not old.uses[op]:
            del old.uses[op]
        op.operands[number] = value
        value.uses[op] = value.uses.get(op, 0) + 1
        self.ops_with_new_operands[op] = None
        self._note_users_of(old)
        self._note_users_of(value)

    def _note_users_of(self, value: GraphValue) -> None:
        """Note that a value has other users, and whether a reshard that makes it is replaced."""
        value.changed_at = self.now()
        if value.owner is not None and value.owner.is_collective:
            for operand in value.owner.operands:
                if operand is not None:
                    operand.changed_at = value.changed_at

    def replace_in(self, op: GraphOp, old: GraphValue, new: GraphValue) -> None:
        """Let `op` use `new` where it uses `old`."""
        for number, value in enumerate(op.operands):
            if value is old:
                self.set_operand(op, number, new)

    def replace_all_uses(self, old: GraphValue, new: GraphValue) -> None:
        """Let all users of `old` use `new`."""
        for op in list(old.uses):
            self.replace_in(op, old, new)

    def create_steps(
        self, steps: Sequence[Step], value: GraphValue, source: Sharding, at: InsertionPoint
    ) -> GraphValue:
        """Create the ops of `steps` on `value`, sharded as `source`; returns the last result."""
        now = source
        for step in steps:
            if is_on_every_grid(step, now):
                now = step.after(now)
                continue
            if (step, now) not in self._attributes:
                name, attributes = step_attributes(step, now)
                self._attributes[step, now] = name, tuple(sorted(attributes.items()))
            name, by_name = self._attributes[step, now]
            target = self.interned(step.after(now))
            op = self._create(name, [value], value.kind, target, at)
            op.is_collective = op.is_reshard = True
            op.attributes = by_name
            op.collective = Collective((step,), now, target)
            value, now = op.results[0], target
        return value

    def copy_fresh(self, op: GraphOp, sharding: Sharding, at: InsertionPoint) -> GraphValue:
        """Create a copy of a `tensor.empty` or a `linalg.fill`, whose result has this sharding."""
        kind = op.results[0].kind
        copy = self._create("tensor.empty", [], kind, sharding, at)
        if op.name == "linalg.fill":
            operands = [op.operands[0], copy.results[0]]
            copy = self._create("linalg.fill", operands, kind, sharding, at)
            copy.handle, copy.kind = op.handle, self.kind_of(op)
        return copy.results[0]

    def _create(
        self,
        name: str,
        operands: list[GraphValue | None],
        kind: Kind,
        sharding: Sharding,
        at: InsertionPoint,
    ) -> GraphOp:
        """Create an op with one result, a tensor."""
        block = at.before.block
        assert block is not None, "new ops go into blocks of the graph"
        op = GraphOp(name, block, None, at.location.location_of, operands)
        sharding = self.interned(sharding)
        op.results = [GraphValue(kind, None if sharding.is_replicated else sharding, op)]
        use_operands(op)
        block.insert(op, at.before)
        for value in operands:
            if value is not None:
                self._note_users_of(value)
        return op

    def drop_unused(self) -> None:
        """Drop reshards, constants and empty or filled tensors without uses."""
        for op in reversed(self.ops()):
            if op.name not in _DROPPABLE or op.has_other_users:
                continue
            if any(result.uses for result in op.results):
                continue
            for value in op.operands:
                if value is not None:
                    value.uses.pop(op, None)
                    self._note_users_of(value)
            assert op.block is not None, "the ops of the graph are in blocks"
            del op.block.ops[op.block.index(op)]
            self.dropped.append(op)


def _ops_in(blocks: Sequence[GraphBlock]) -> Iterator[GraphOp]:
    for block in blocks:
        for op in block.ops:
            yield op
            if op.blocks:
                yield from _ops_in(op.blocks)
