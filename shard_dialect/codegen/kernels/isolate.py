"""Close a function over what it uses of another one: captured values become arguments.

    func.func @f() {                              func.func @f(%x: memref<4xf32>) {
      %v = memref.load %buffer[%zero]      ->       %zero = arith.constant 0 : index
                                                    %v = memref.load %x[%zero]

Constants are copied instead, so that LLVM knows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import body, operations


def isolate(function: ir.Operation) -> list[ir.Value]:
    """Close the function, which has no arguments yet; return the values for its arguments.

    They are in the order in which the function uses them first.
    """
    block = body(function)
    inside: set[ir.Value] = set()
    arguments: dict[ir.Value, ir.Value] = {}
    for op in list(_ops(block.operations, inside)):
        for number, operand in enumerate(op.operands):
            if operand in inside:
                continue
            if operand not in arguments:
                arguments[operand] = _copied(operand, block) or block.add_argument(
                    operand.type, function.location
                )
            op.operands[number] = arguments[operand]
    captured = [value for value, own in arguments.items() if isinstance(own.owner, ir.Block)]
    type_ = ir.FunctionType.get([value.type for value in captured], [])
    function.attributes["function_type"] = ir.TypeAttr.get(type_)
    return captured


def _ops(ops: Iterable[ir.Operation], inside: set[ir.Value]) -> Iterator[ir.Operation]:
    """All ops, also in regions; `inside` gets the values that they and their blocks define."""
    for each in ops:
        op = each.operation
        yield op
        for region in op.regions:
            for block in region:
                inside.update(block.arguments)
                yield from _ops(block.operations, inside)
        inside.update(op.results)


def _copied(value: ir.Value, block: ir.Block) -> ir.Value | None:
    """The value made in the block, if it is a constant scalar, or a buffer of one element."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in ("arith.constant", "memref.get_global"):
        return None
    if isinstance(value.type, ir.ShapedType) and prod(value.type.shape) != 1:
        return None
    first = operations(block)[0]
    with ir.InsertionPoint(first):
        copy: ir.Value = owner.operation.clone().results[0]
    return copy
