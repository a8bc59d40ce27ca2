"""The elements of a function's graph: values, ops and shardings, blocks, and insertion points."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.mesh_collectives import Collective
from shard_dialect.ir.numbered_function import Kind
from shard_dialect.model import Sharding
from shard_dialect.rules.op_kinds import OpKind

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
    """Of a collective."""
    kind: OpKind | None = None
    position: int = 0
    """Grows along the block."""

    @property
    def is_unused(self) -> bool:
        """Whether it is a collective that no op uses any more."""
        return self.is_collective and not self.results[0].uses


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
        if op.position == last:
            for number, each in enumerate(self.ops):
                each.position = number * _GAP

    def index(self, op: GraphOp) -> int:
        """The index of `op` in `ops`."""
        return bisect_left(self.ops, op.position, key=lambda each: each.position)


@dataclass(frozen=True, slots=True)
class OpSharding:
    """The shardings of an op's operands and results, and what they cost each device.

    `None` for values that are not tensors.
    """

    operands: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]
    work: float
    """The price of the arithmetic of one device; 0 for an op that is not a product."""
    elements: int
    """The elements that one device computes: of the largest operand or result."""


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
