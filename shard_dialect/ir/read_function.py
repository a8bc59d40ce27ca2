"""From a `func.func` to a `Function`: numbers its values and ops, in one pass over the IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import name_of
from shard_dialect.ir.numbered_function import Block, Function, Kind, Op, Value, itemsize
from shard_dialect.ir.region_flow import FLOWS
from shard_dialect.ir.walk import has_own_body, operations


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
