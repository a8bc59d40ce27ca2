"""A function read once into plain Python: the passes think here and touch the IR once, to write.

Calls into the bindings cost microseconds each; integers and tuples do not. A `Function` numbers
the values and ops of a `func.func` with one block. Attributes, regions and types stay in the IR,
reachable through the handles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import name_of
from shard_dialect.ir.walk import body, operations
from shard_dialect.model.sharding import Shape


@dataclass(slots=True)
class Value:
    """An SSA value; `shape` is its global shape, or `None` if it is no static tensor."""

    handle: ir.Value
    shape: Shape | None
    itemsize: int
    is_tensor: bool


@dataclass(slots=True)
class Op:
    """An op of the function's block; operands and results are value numbers.

    `captures` are the tensors that its regions read from outside: each the op inside, the place
    among its operands, and the value.
    """

    handle: ir.Operation
    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    captures: tuple[tuple[ir.Operation, int, int], ...] = ()

    @property
    def location(self) -> ir.Location:
        return self.handle.location


@dataclass
class Function:
    """One function of the module, its body in order, the terminator apart."""

    handle: ir.Operation
    name: str
    values: list[Value] = field(default_factory=list)
    arguments: tuple[int, ...] = ()
    ops: list[Op] = field(default_factory=list)
    returned: tuple[int, ...] = ()

    @property
    def terminator(self) -> ir.Operation:
        block = body(self.handle)
        return block.operations[len(block.operations) - 1].operation


def read_function(handle: ir.Operation) -> Function:
    """Read a function with a body. Raises if it has more than one block."""
    region = handle.regions[0]
    name = name_of(handle)
    if len(region.blocks) != 1:
        raise error_at(
            handle.location,
            f"function @{name} has {len(region.blocks)} blocks: only one is supported yet",
        )
    function = Function(handle, name)
    numbers: dict[ir.Value, int] = {}

    def number(value: ir.Value) -> int:
        numbers[value] = len(function.values)
        function.values.append(_read_value(value))
        return numbers[value]

    block = region.blocks[0]
    function.arguments = tuple(number(argument) for argument in block.arguments)
    for op in operations(block):
        operands = tuple(numbers[operand] for operand in op.operands)
        if op.name == "func.return":
            function.returned = operands
            break
        captures = tuple(_captures(op, numbers)) if len(op.regions) else ()
        results = tuple(number(result) for result in op.results)
        function.ops.append(Op(op, op.name, operands, results, captures))
    return function


def _read_value(value: ir.Value) -> Value:
    type_ = value.type
    if not isinstance(type_, ir.RankedTensorType):
        return Value(value, None, 0, isinstance(type_, ir.UnrankedTensorType))
    shape = tuple(type_.shape) if type_.has_static_shape else None
    return Value(value, shape, itemsize(type_.element_type), True)


def itemsize(element: ir.Type) -> int:
    """The bytes of one element as it is communicated; an i1 takes one."""
    if isinstance(element, ir.ComplexType):
        return 2 * itemsize(element.element_type)
    width = getattr(element, "width", 64)
    return max(1, int(width) // 8)


def _captures(
    op: ir.Operation, numbers: dict[ir.Value, int]
) -> Iterator[tuple[ir.Operation, int, int]]:
    for region in op.regions:
        for block in region.blocks:
            for inner in operations(block):
                for place, operand in enumerate(inner.operands):
                    if operand in numbers and isinstance(operand.type, ir.ShapedType):
                        yield inner, place, numbers[operand]
                yield from _captures(inner, numbers)
