"""A function as plain Python data, and how values flow through ops with regions.

Passes analyse functions as this data, and only write to the IR. Each call into the bindings costs
microseconds. A `Function` numbers the values and ops of a `func.func`, including those in the
regions of loops and branches. Other regions (the body of a `linalg.generic`), attributes and types
stay in the IR, which the handles lead to.

Values flow through ops with regions: loops, branches, optimization barriers.

    %r = scf.for ... iter_args(%x = %init)     %init and the yielded value flow to %x and %r
    %r = scf.if %c                             the yielded values of both regions flow to %r
    cf.br ^bb1(%x)                             %x flows to the argument of ^bb1

A flow has sources, which are operands of ops, and targets, which are values that take the value of
some source. All of them must have the same sharding. Source: the dialects' documentation; Shardy,
ShardableDataFlowOpInterface.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import name_of
from shard_dialect.ir.walk import has_own_body, operations, walk
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

    `blocks` are the blocks of its regions, one region after the other, if its flows are known.
    For other regions, `captures` has the tensors that they read from outside: the op inside,
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
        """The values that the op reads: operands, and captures of its regions without flows."""
        return (*self.operands, *(value for _, _, value in self.captures), *self.scalars)

    @property
    def location(self) -> ir.Location:
        """The op's location."""
        return self.handle.location


def read_by(op: Op) -> Iterator[int]:
    """The values that an op or one inside of it reads."""
    yield from op.read
    for block in op.blocks:
        for inner in block.ops:
            yield from read_by(inner)


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

    @cached_property
    def readers(self) -> Mapping[int, Sequence[Op]]:
        """The ops that read each value, of a function that has all of its ops."""
        readers: dict[int, list[Op]] = {}
        for op in self.ops:
            for value in op.read:
                readers.setdefault(value, []).append(op)
        return readers

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


@dataclass(frozen=True, slots=True)
class Flow:
    """`sources` are pairs of an op and an operand number; `targets` are value numbers."""

    sources: tuple[tuple[Op, int], ...]
    targets: tuple[int, ...]

    @property
    def is_unchanged(self) -> bool:
        """Whether a loop passes on what it carries as it is."""
        (_, *again) = self.sources
        return bool(again) and all(end.operands[number] in self.targets for end, number in again)


def flows_through(op: Op) -> list[Flow]:
    """The flows of one op; none if its sharding rule relates its values."""
    return list(FLOWS[op.name](op)) if op.name in FLOWS else []


def flows_between(blocks: Sequence[Block]) -> list[Flow]:
    """The flows from the ends of blocks to the arguments of other blocks of the same region."""
    sources: dict[tuple[int, int], list[tuple[Op, int]]] = {}
    numbers = {block.handle: number for number, block in enumerate(blocks)}
    for block in blocks if len(blocks) > 1 else ():
        for successor, operands in branches_of(block.end.handle):
            for number, operand in enumerate(operands):
                sources.setdefault((numbers[successor], number), []).append((block.end, operand))
    return [
        Flow(tuple(values), (blocks[block].arguments[number],))
        for (block, number), values in sorted(sources.items(), key=lambda each: each[0])
    ]


def in_order(blocks: Sequence[Block]) -> list[Block]:
    """The blocks, each after those through which every path to it leads; unreachable ones last."""
    if len(blocks) < 2:
        return list(blocks)
    by_handle = {block.handle: block for block in blocks}
    done: list[Block] = []
    entered: set[int] = set()
    for start in blocks:
        path = [(start, iter(start.end.handle.successors))] if id(start) not in entered else []
        entered.add(id(start))
        first = len(done)
        while path:
            block, successors = path[-1]
            successor = next(successors, None)
            if successor is None:
                done.append(block)
                path.pop()
            elif id(by_handle[successor]) not in entered:
                entered.add(id(by_handle[successor]))
                path.append(
                    (by_handle[successor], iter(by_handle[successor].end.handle.successors))
                )
        done[first:] = done[first:][::-1]
    return done


def branches_of(end: ir.Operation) -> Iterator[tuple[ir.Block, range]]:
    """The successors of a block that `end` ends, each with the numbers of the operands it gets."""
    successors = list(end.successors)
    first = 0
    counts = [len(end.operands)]
    if end.name != "cf.br" and successors:
        flag, *counts = end.attributes["operandSegmentSizes"]
        first = flag
    if end.name == "cf.switch":
        counts = [counts[0], *end.attributes["case_operand_segments"]]
    for successor, count in zip(successors, counts, strict=False):
        yield successor, range(first, first + count)
        first += count


def _for(op: Op) -> Iterator[Flow]:
    body = op.blocks[0]
    for number, result in enumerate(op.results):
        sources = ((op, 3 + number), (body.end, number))
        yield Flow(sources, (body.arguments[1 + number], result))


def _while(op: Op) -> Iterator[Flow]:
    before, after = op.blocks
    for number, argument in enumerate(before.arguments):
        yield Flow(((op, number), (after.end, number)), (argument,))
    for number, result in enumerate(op.results):
        yield Flow(((before.end, 1 + number),), (after.arguments[number], result))


def _branch(op: Op) -> Iterator[Flow]:
    """The flows from each region's yielded values to the results."""
    ends = [block.end for block in op.blocks if not list(block.end.handle.successors)]
    for number, result in enumerate(op.results):
        yield Flow(tuple((end, number) for end in ends), (result,))
    yield from flows_between(op.blocks)


def _state(op: Op) -> Iterator[Flow]:
    """A loop whose condition and body both have the carried values as arguments."""
    condition, body = op.blocks
    for number, result in enumerate(op.results):
        sources = ((op, number), (body.end, number))
        yield Flow(sources, (condition.arguments[number], body.arguments[number], result))


def _branch_on(op: Op) -> Iterator[Flow]:
    """As `_branch`, for regions whose arguments are the operands after the condition."""
    for number in range(len(op.operands) - 1):
        yield Flow(((op, 1 + number),), tuple(block.arguments[number] for block in op.blocks))
    yield from _branch(op)


def _for_all(op: Op) -> Iterator[Flow]:
    """The tensors that all iterations share; they are written by `parallel_insert_slice`."""
    body, count = op.blocks[0], len(op.results)
    for number, result in enumerate(op.results):
        operand = len(op.operands) - count + number
        argument = body.arguments[len(body.arguments) - count + number]
        yield Flow(((op, operand),), (argument, result))


def _as_they_are(op: Op) -> Iterator[Flow]:
    for number, result in enumerate(op.results):
        yield Flow(((op, number),), (result,))


def _none(_: Op) -> Iterator[Flow]:
    yield from ()


FLOWS: dict[str, Callable[[Op], Iterator[Flow]]] = {
    "scf.execute_region": _branch,
    "scf.for": _for,
    "scf.forall": _for_all,
    "scf.forall.in_parallel": _none,
    "scf.if": _branch,
    "scf.index_switch": _branch,
    "scf.while": _while,
    "stablehlo.case": _branch,
    "stablehlo.if": _branch,
    "stablehlo.optimization_barrier": _as_they_are,
    "stablehlo.while": _state,
    "tosa.cond_if": _branch_on,
    "tosa.while_loop": _state,
}

PARALLEL = "scf.forall.in_parallel"
"""The op with the writes of the iterations of an `scf.forall`."""

LOOPS = ("scf.for", "scf.forall", "scf.while", "stablehlo.while", "tosa.while_loop")
"""The ops whose regions run repeatedly."""

ENDS = (
    "cf.br",
    "cf.cond_br",
    "cf.switch",
    "func.return",
    "scf.condition",
    "scf.yield",
    "stablehlo.return",
    "tosa.yield",
)
"""The ops that end a block, and pass values on."""


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
        ops_by_block = [operations(each) for each in handles]
        if len(blocks) > 1 and len(op.regions) == 1:  # a block may use results of a later one
            for ops in ops_by_block:
                for inner in ops:
                    for result in inner.results:
                        self._number(result)
        for block, ops in zip(blocks, ops_by_block, strict=True):
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
                self._note_captures(op)
        op.results = tuple([self._number(result) for result in handle.results])
        return op

    def _number(self, value: ir.Value) -> int:
        if value not in self._numbers:
            self._numbers[value] = len(self.function.values)
            type_ = value.type
            if type_ not in self._kinds:
                self._kinds[type_] = read_type(type_)
            self.function.values.append(Value(value, self._kinds[type_]))
        return self._numbers[value]

    def _note_captures(self, op: Op) -> None:
        captured = list(self._captures(op.handle))
        shaped = [
            isinstance(self.function.values[value].kind.type, ir.ShapedType)
            for _, _, value in captured
        ]
        op.captures = tuple(compress(captured, shaped))
        others = (value for (_, _, value), each in zip(captured, shaped, strict=True) if not each)
        op.scalars = tuple(dict.fromkeys(others))

    def _captures(self, op: ir.Operation) -> Iterator[tuple[ir.Operation, int, int]]:
        for region in op.regions:
            for block in region.blocks:
                for inner in operations(block):
                    for number, operand in enumerate(inner.operands):
                        if operand in self._numbers:
                            yield inner, number, self._numbers[operand]
                    yield from self._captures(inner)


def read_type(type_: ir.Type) -> Kind:
    """The kind of values of this type."""
    if not isinstance(type_, ir.RankedTensorType):
        return Kind(type_, None, 0, isinstance(type_, ir.UnrankedTensorType))
    shape = tuple(type_.shape) if type_.has_static_shape else None
    return Kind(type_, shape, itemsize(type_.element_type), True)


VIEWS = (
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.reinterpret_cast",
    "memref.subview",
    "memref.transpose",
)
"""Ops whose result is in the memory of their first operand."""
_ACCESS_NOTHING = (
    *VIEWS,
    "memref.alloc",
    "memref.alloca",
    "memref.get_global",
    "memref.extract_aligned_pointer_as_index",
)


def accesses_memory(op: ir.Operation) -> bool:
    """Whether an op on buffers may read or write elements; others only make values."""
    makes_values = op.name.startswith(("arith.", "math.", "index."))
    return not (makes_values or op.name in _ACCESS_NOTHING)


def is_buffer(value: ir.Value) -> bool:
    """Whether the value is a buffer, of any shape."""
    return isinstance(value.type, (ir.MemRefType, ir.UnrankedMemRefType))


def read_values(function: Function) -> dict[int, tuple[int, ...]]:
    """The values that each op of the function's first block reads, by the op's id."""
    numbers = {value.handle: number for number, value in enumerate(function.values)}
    return {
        id(op): (*op.operands, *(numbers[value] for value in captured(op.handle)))
        for op in function.blocks[0].ops
    }


def replace_captured(op: ir.Operation, by: Mapping[ir.Value, ir.Value]) -> None:
    """Let the ops in the regions of `op` read other values."""
    for inner in walk(op):
        for number, value in enumerate(inner.operands):
            if value in by:
                inner.operands[number] = by[value]


def captured(op: ir.Operation) -> list[ir.Value]:
    """The values from outside of `op` that the ops in its regions read."""
    inside = walk(op) if len(op.regions) else []
    made = {value for each in inside for value in each.results}
    for each in (op, *inside):
        made |= {v for region in each.regions for block in region.blocks for v in block.arguments}
    return list(dict.fromkeys(v for each in inside for v in each.operands if v not in made))
