"""A function as plain Python data: passes analyse it here, and only write to the IR.

Each call into the bindings costs microseconds. A `Function` numbers the values and ops of a
`func.func`, including those in the regions of loops and branches. Other regions (the body of a
`linalg.generic`), attributes and types stay in the IR, which the handles lead to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.model.sharding import Shape


@dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """A type; `shape` is its global shape, or `None` if it is not a static tensor.

    `itemsize` is the bytes of an element.
    """

    type: ir.Type
    shape: Shape | None
    itemsize: int
    is_tensor: bool


@dataclass(slots=True)
class Value:
    """An SSA value. Values of one type share their `kind`."""

    handle: ir.Value
    kind: Kind

    @property
    def shape(self) -> Shape | None:
        """The global shape; `None` if it is not a static tensor."""
        return self.kind.shape

    @property
    def is_tensor(self) -> bool:
        """Whether the value is a tensor, of any shape."""
        return self.kind.is_tensor


@dataclass(slots=True)
class Block:
    """A block: the numbers of its arguments, and its ops in order."""

    handle: ir.Block
    arguments: tuple[int, ...]
    ops: list[Op] = field(default_factory=list)

    @property
    def end(self) -> Op:
        """The op that ends the block."""
        return self.ops[-1]


@dataclass(slots=True)
class Op:
    """An op; operands and results are value numbers.

    `blocks` are the blocks of its regions, one region after the other, if `ir.region_flow` has its
    flows. For other regions, `captures` has the tensors that they read from outside: the op inside,
    the operand number, and the value number. `scalars` has the other values that they read.
    """

    handle: ir.Operation
    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    blocks: tuple[Block, ...] = ()
    captures: tuple[tuple[ir.Operation, int, int], ...] = ()
    scalars: tuple[int, ...] = ()

    @property
    def read(self) -> tuple[int, ...]:
        """The values that the op reads: operands, and what its regions without flows capture."""
        return (*self.operands, *(value for _, _, value in self.captures), *self.scalars)

    @property
    def location(self) -> ir.Location:
        """The op's location."""
        return self.handle.location


@dataclass
class Function:
    """One function of the module.

    `ops` has all of its ops, each before those inside it, including the ends of blocks.
    """

    handle: ir.Operation
    name: str
    values: list[Value] = field(default_factory=list)
    blocks: tuple[Block, ...] = ()
    ops: list[Op] = field(default_factory=list)

    @property
    def arguments(self) -> tuple[int, ...]:
        """The value numbers of the arguments."""
        return self.blocks[0].arguments

    @property
    def returns(self) -> list[Op]:
        """The function's `func.return` ops."""
        return [block.end for block in self.blocks if block.end.name == "func.return"]

    def count_uses(self) -> Counter[int]:
        """The number of uses of each value, captures included."""
        return Counter([value for op in self.ops for value in op.read])


def itemsize(element: ir.Type) -> int:
    """The bytes of one element in communication, a power of two: an i1 takes one byte."""
    if isinstance(element, ir.ComplexType):
        return 2 * itemsize(element.element_type)
    width = getattr(element, "width", 64)
    return 1 << max(0, (int(width) - 1).bit_length() - 3)
