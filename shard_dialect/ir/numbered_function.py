"""A function as plain Python data: passes analyse it here, and only write to the IR.

Each call into the bindings costs microseconds. A `Function` numbers the values and ops of a
`func.func`, including those in the regions of loops and branches (`ir.region_flow`). Other regions
(the body of a `linalg.generic`), attributes and types stay in the IR, which the handles lead to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import name_of
from shard_dialect.ir.region_flow import FLOWS
from shard_dialect.ir.walk import has_own_body, operations
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
    the operand number, and the value number.
    """

    handle: ir.Operation
    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    blocks: tuple[Block, ...] = ()
    captures: tuple[tuple[ir.Operation, int, int], ...] = ()

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
        uses = Counter([value for op in self.ops for value in op.operands])
        uses.update(value for op in self.ops for _, _, value in op.captures)
        return uses


def read_functions(handles: Sequence[ir.Operation]) -> list[Function]:
    """Read functions with a body, of one module; values of one type share their `kind`."""
    kinds: dict[ir.Type, Kind] = {}
    return [_Reader(handle, kinds).read() for handle in handles]


def read_function(handle: ir.Operation) -> Function:
    """Read one function with a body."""
    return read_functions([handle])[0]


class _Reader:
    def __init__(self, handle: ir.Operation, kinds: dict[ir.Type, Kind]) -> None:
        self.function = Function(handle, name_of(handle))
        self._numbers: dict[ir.Value, int] = {}
        self._kinds = kinds

    def read(self) -> Function:
        self.function.blocks = self._blocks(self.function.handle)
        return self.function

    def _blocks(self, op: ir.Operation) -> tuple[Block, ...]:
        handles = [block for region in op.regions for block in region.blocks]
        # All arguments first: a block may branch to an earlier one.
        blocks = tuple(Block(each, tuple(map(self._number, each.arguments))) for each in handles)
        found = [operations(each) for each in handles]
        if len(blocks) > 1 and len(op.regions) == 1:  # a block may use results of a later one
            for ops in found:
                for inner in ops:
                    for result in inner.results:
                        self._number(result)
        for block, ops in zip(blocks, found, strict=True):
            block.ops = [self._op(inner) for inner in ops]
        return blocks

    def _op(self, handle: ir.Operation) -> Op:
        name = handle.name
        numbers = self._numbers
        op = Op(handle, name, tuple([numbers[operand] for operand in handle.operands]), ())
        self.function.ops.append(op)
        if len(handle.regions):
            if name in FLOWS:
                op.blocks = self._blocks(handle)
            elif has_own_body(name):
                op.captures = tuple(self._captures(handle))
        op.results = tuple([self._number(result) for result in handle.results])
        return op

    def _number(self, value: ir.Value) -> int:
        if value not in self._numbers:
            self._numbers[value] = len(self.function.values)
            type_ = value.type
            if type_ not in self._kinds:
                self._kinds[type_] = _read_type(type_)
            self.function.values.append(Value(value, self._kinds[type_]))
        return self._numbers[value]

    def _captures(self, op: ir.Operation) -> Iterator[tuple[ir.Operation, int, int]]:
        for region in op.regions:
            for block in region.blocks:
                for inner in operations(block):
                    for number, operand in enumerate(inner.operands):
                        if operand in self._numbers and isinstance(operand.type, ir.ShapedType):
                            yield inner, number, self._numbers[operand]
                    yield from self._captures(inner)


def _read_type(type_: ir.Type) -> Kind:
    if not isinstance(type_, ir.RankedTensorType):
        return Kind(type_, None, 0, isinstance(type_, ir.UnrankedTensorType))
    shape = tuple(type_.shape) if type_.has_static_shape else None
    return Kind(type_, shape, itemsize(type_.element_type), True)


def itemsize(element: ir.Type) -> int:
    """The bytes of one element in communication, a power of two: an i1 takes one byte."""
    if isinstance(element, ir.ComplexType):
        return 2 * itemsize(element.element_type)
    width = getattr(element, "width", 64)
    return 1 << max(0, (int(width) - 1).bit_length() - 3)
