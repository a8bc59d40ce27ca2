"""A function in the distributed form as a graph of Python objects, which rewrites change in place.

Each call into the bindings costs microseconds, and rewrites ask the same questions again and again.
So a function is read once, rewritten here, and written back once (`write_graph`).

The graph notes which values are looked at, and when each was changed, so that a rewrite that failed
is not tried again before a value that it looked at has changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from shard_dialect.collectives import Step
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import is_used
from shard_dialect.ir.mesh.annotation_ops import is_manual, manual_axes_at, manual_axes_of
from shard_dialect.ir.mesh.mesh_collectives import (
    Collective,
    is_on_every_grid,
    read_collective,
    step_attributes,
)
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES, TRANSFER, is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Block, Function, Kind, Op, read_type
from shard_dialect.model import Sharding
from shard_dialect.ops.op_table import OpKind, OpKinds
from shard_dialect.planner import BYTES, Plan, Prices

_GAP = 1 << 20
"""The distance between the positions of neighbouring ops, for ops that come in between."""

Attributes = tuple[tuple[str, ir.Attribute], ...]


@dataclass(eq=False, slots=True)
class GraphValue:
    """An SSA value. `kind` is its type without the sharding, and `sharding` is that in its type.

    A value without a sharding in its type may be a replicated tensor, or no tensor.
    """

    kind: Kind
    sharding: Sharding | None
    owner: GraphOp | None = None
    """The op that makes it; `None` for a block argument."""
    handle: ir.Value | None = None
    """The value in the IR; `None` before a new one is written."""
    uses: dict[GraphOp, int] = field(default_factory=dict)
    """Its users, each with the number of its operands that are this value."""
    changed_at: int = 0
    """When its sharding or its users have changed last, by the graph's clock."""


@dataclass(eq=False, slots=True)
class GraphOp:
    """An op of a block. An op inside a region that no block of the graph is has `block` `None`.

    Of such an op, only the operands from outside the region are in `operands`.
    """

    name: str
    block: GraphBlock | None
    handle: ir.Operation
    """The op in the IR, or the one that this one is a copy of; `None` for a new collective."""
    location_of: ir.Operation
    """The op in the IR whose location it has."""
    operands: list[GraphValue | None]
    results: list[GraphValue] = field(default_factory=list)
    blocks: list[GraphBlock] = field(default_factory=list)
    operands_read: tuple[GraphValue | None, ...] | None = None
    """The operands in the IR; `None` for a new op."""
    is_collective: bool = False
    is_reshard: bool = False
    has_other_users: bool = False
    """Whether regions that are not read use its result, a number."""
    collective: Collective | None = None
    attributes: Attributes = ()
    """The attributes of a collective."""
    kind: OpKind | None = None
    signature: Signature | None = None
    position: int = 0
    """A number that grows along the block, with gaps for ops in between."""

    @property
    def is_unused(self) -> bool:
        """Whether it is a collective that no op uses any more."""
        return self.is_collective and not self.results[0].uses


@dataclass(frozen=True, eq=False, slots=True)
class Signature:
    """What an op is, whatever its values are: one object for ops that are alike."""

    stays: bool
    """Whether no rewrite changes such ops."""


@dataclass(eq=False, slots=True)
class GraphBlock:
    """A block, with its ops in order."""

    ops: list[GraphOp] = field(default_factory=list)

    def append(self, op: GraphOp) -> None:
        """Add an op at the end."""
        op.position = self.ops[-1].position + _GAP if self.ops else 0
        self.ops.append(op)

    def insert(self, op: GraphOp, before: GraphOp) -> None:
        """Insert an op before another one."""
        index = self.index(before)
        last = self.ops[index - 1].position if index else before.position - 2 * _GAP
        op.position = (last + before.position) // 2
        self.ops.insert(index, op)
        # The gap is used up. A gap is halved by each insertion, so that renumbering is rare.
        if op.position == last:
            for number, each in enumerate(self.ops):
                each.position = number * _GAP

    def index(self, op: GraphOp) -> int:
        """The index of `op` in `ops`."""
        return bisect_left(self.ops, op.position, key=lambda each: each.position)


@dataclass(frozen=True, slots=True)
class OpSharding:
    """The shardings of an op's operands and results, and their cost for each device.

    `None` for values that are not tensors.
    """

    operands: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]
    work: float
    """The price of the arithmetic of one device; 0 for an op that is not a product."""
    elements: int
    """The elements of one device's operands and results."""
    sent: int = 0
    """The price of what one device sends of the operands as a part of the op."""
    rounds: int = 0
    """The number of permutations that send it."""


@dataclass(frozen=True, slots=True)
class InsertionPoint:
    """Where new ops go: before the op `before`, with the location of the op `location`."""

    before: GraphOp
    location: GraphOp

    @classmethod
    def at(cls, op: GraphOp) -> InsertionPoint:
        """Before `op`."""
        return cls(op, op)

    @classmethod
    def after(cls, op: GraphOp) -> InsertionPoint:
        """After `op`, which does not end its block."""
        assert op.block is not None, "new ops go into blocks of the graph"
        return cls(op.block.ops[op.block.index(op) + 1], op)


def use_operands(op: GraphOp) -> None:
    """Make a new op a user of its operands."""
    for value in op.operands:
        if value is not None:
            value.uses[op] = value.uses.get(op, 0) + 1


@dataclass(eq=False, slots=True)
class Failures:
    """How a rewrite has failed, after what it has seen so far: a tree (`optimize.failures`)."""

    looks_at: int | None = None
    """The number of the value that it looks at next; `None` if it has not gone on from here."""
    then: dict[Hashable, Failures] = field(default_factory=dict)
    """By the description of that value."""
    orders: set[tuple[int, ...]] = field(default_factory=set)
    """The orders of the ops in which it has failed, and has looked at nothing more."""


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
        self.looked_at: dict[GraphValue, None] = {}
        """The values whose sharding or users the present rewrite has read, in this order."""
        self.failed: dict[tuple[Hashable, GraphOp], tuple[int, tuple[GraphValue, ...]]] = {}
        """By rewrite and reshard: when it last failed there, and the values that it looked at."""
        self.signatures: dict[Hashable, Signature] = {}
        self.failures: dict[Hashable, Failures] = {}
        """By rewrite and what kind of reshard it is."""
        self._clock = count(1)
        self._shardings: dict[Sharding, Sharding] = {}
        self.plans: dict[tuple[Kind, Sharding, Sharding, tuple[int, ...]], Plan] = {}
        """The reshard plans of tensors of a kind, by source, target and manual axes."""
        self._has_manual_axes = any(is_manual(op.handle) for op in function.ops)
        self.known_prices: dict[tuple[Kind, tuple[Step, ...], Sharding], int] = {}
        """The prices of collectives, by the tensor's kind and their source."""
        self.op_shardings: dict[Hashable, OpSharding | None] = {}
        """The shardings of ops, by their kinds and the shardings of their values."""
        self._op_kinds = OpKinds()
        self._collectives: dict[tuple[object, ...], Collective] = {}
        self._attributes: dict[tuple[Step, Sharding], tuple[str, Attributes]] = {}
        self._attributes_of: dict[Attributes, Attributes] = {}
        """Those of collectives; equal ones are one object."""
        self._kinds: dict[ir.Type, tuple[Kind, Sharding | None]] = {}
        self._values = [self._read_value(each.handle) for each in function.values]
        self.blocks = [self._read_block(block) for block in function.blocks]
        for op in self.ops():
            if op.name == "arith.constant" and not op.results[0].kind.is_tensor:
                # The op may be used in a region that is not read, in which case it cannot be
                # dropped.
                uses = sum(1 for _ in op.handle.results[0].uses)
                op.has_other_users = uses > sum(op.results[0].uses.values())

    def now(self) -> int:
        """The time, by the graph's clock."""
        return next(self._clock)

    def manual_axes(self, value: GraphValue) -> tuple[int, ...]:
        """The manual axes of the manual computations that a value is in."""
        if not self._has_manual_axes:
            return ()
        if value.handle is not None:
            return manual_axes_of(value.handle)
        assert value.owner is not None, "a new value is made by an op"
        return manual_axes_at(value.owner.location_of)

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
            attributes = tuple(handle.attributes.items())
            op.attributes = self._attributes_of.setdefault(attributes, attributes)
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
        self.looked_at[value] = None
        return [op for op in value.uses if not op.is_collective or op.results[0].uses]

    def is_only_for(self, value: GraphValue, op: GraphOp) -> bool:
        """Whether `op`, which uses `value`, is its only user."""
        self.looked_at[value] = None
        return len(value.uses) == 1 or all(user is op or user.is_unused for user in value.uses)

    def sharding_on(self, grid: str, value: GraphValue) -> Sharding:
        """The sharding of a tensor; one without is replicated on `grid`."""
        self.looked_at[value] = None
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
        """The collective of a reshard; raises `ShardingError` for attributes that do not fit it."""
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
        # A type without a sharding means replicated, and one tensor type must not have two
        # spellings.
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
        # A reshard without uses does not count as a user of its operand (`users`, `is_only_for`).
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
                name, given = step_attributes(step, now)
                attributes = tuple(sorted(given.items()))
                same = self._attributes_of.setdefault(attributes, attributes)
                self._attributes[step, now] = name, same
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

    def copy(self, op: GraphOp) -> GraphOp:
        """Create a copy of an op that was read, with one result and no regions, after it."""
        kind, sharding = op.results[0].kind, op.results[0].sharding
        copy = self._create(op.name, op.operands, kind, sharding, InsertionPoint.after(op))
        copy.attributes = tuple(op.handle.attributes.items())
        copy.handle, copy.kind = op.handle, self.kind_of(op)
        return copy

    def _create(
        self,
        name: str,
        operands: Sequence[GraphValue | None],
        kind: Kind,
        sharding: Sharding | None,
        at: InsertionPoint,
    ) -> GraphOp:
        """Create an op with one result, a tensor."""
        block = at.before.block
        assert block is not None, "new ops go into blocks of the graph"
        op = GraphOp(name, block, None, at.location.location_of, list(operands))
        if sharding is not None:
            sharding = None if sharding.is_replicated else self.interned(sharding)
        op.results = [GraphValue(kind, sharding, op)]
        use_operands(op)
        block.insert(op, at.before)
        for value in operands:
            if value is not None:
                self._note_users_of(value)
        return op

    def drop_unused(self) -> None:
        """Drop reshards, constants and empty or filled tensors without uses."""
        # Users first, so that one sweep drops a whole chain.
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


def write_graph(graph: FunctionGraph) -> None:
    """Create the new ops, change the operands and types of the others, and erase dropped ones."""
    # Types first: an op may take its result type from an operand.
    writer = _Writer(graph)
    for value in graph.retyped:
        if value.handle is not None:
            value.handle.set_type(graph.shardings.typed(value.handle.type, value.sharding))
    writer.find_insertion_points(graph.blocks)
    for op in writer.insertion_points:
        writer.create(op)
    dropped = set(graph.dropped)
    for op in graph.ops_with_new_operands:
        if op.operands_read is not None and op not in dropped:
            writer.write_operands(op, op.operands_read)
    _erase([op.handle for op in graph.dropped if op.operands_read is not None])


def _erase(handles: list[ir.Operation]) -> None:
    """Erase ops, of which some may use others, in an order that the graph does not tell."""
    while handles:
        used: list[ir.Operation] = []
        for handle in handles:
            if is_used(*handle.results):
                used.append(handle)
            else:
                handle.erase()
        handles = used


class _Writer:
    def __init__(self, graph: FunctionGraph) -> None:
        self.shardings = graph.shardings
        self.insertion_points: dict[GraphOp, ir.Operation] = {}
        """The new ops in order, each with the op in the IR before which it goes."""

    def find_insertion_points(self, blocks: Sequence[GraphBlock]) -> None:
        for block in blocks:
            new: list[GraphOp] = []
            for op in block.ops:
                if op.operands_read is None:
                    new.append(op)
                    continue
                self.insertion_points |= dict.fromkeys(new, op.handle)
                new.clear()
                self.find_insertion_points(op.blocks)

    def create(self, op: GraphOp) -> None:
        """Create a new op, after the new ops that make its operands."""
        result = op.results[0]
        if result.handle is not None:
            return
        operands = [self._handle(value) for value in op.operands]
        type_ = self.shardings.typed(result.kind.type, result.sharding)
        with ir.InsertionPoint(self.insertion_points[op]), op.location_of.location:
            if op.name == "linalg.fill":
                created = build.fill(*operands)
            else:
                created = build.create(op.name, [type_], operands, dict(op.attributes))
        result.handle = created.results[0]

    def write_operands(self, op: GraphOp, operands_read: Sequence[GraphValue | None]) -> None:
        operands = op.handle.operands
        for number, (value, read) in enumerate(zip(op.operands, operands_read, strict=True)):
            if value is not read:
                operands[number] = self._handle(value)

    def _handle(self, value: GraphValue | None) -> ir.Value:
        assert value is not None, "an op of a block has all operands"
        if value.handle is None:
            assert value.owner is not None, "block arguments have handles"
            self.create(value.owner)
        return value.handle
