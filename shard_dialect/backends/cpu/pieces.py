"""Cut long functions of the LLVM dialect, which do nothing but call, into short ones.

    llvm.call @mesh.kernel.0(%p)                llvm.call @mesh.piece.0(%frame)
    ... hundreds of calls                ->     llvm.call @mesh.piece.1(%frame)

LLVM allocates registers for all calls of a block together, and takes the longer for each, the more
there are. A piece computes the pointers that it needs from what it is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import copy_onto, drop_unused
from shard_dialect.ir.walk import blocks, body, operations, source_behind
from shard_dialect.model.reached import reached

_MOST = 200
"""The number of calls in a piece."""
_PIECE = "mesh.piece"
_COPIED = ("llvm.mlir.constant", "llvm.mlir.addressof", "llvm.mlir.zero", "llvm.getelementptr")
"""Ops that are cheaper than an argument."""


def cut_into_pieces(module: ir.Operation) -> None:
    """Cut each run of calls without results that is longer than a piece."""
    number = 0
    for function in operations(body(module)):
        if function.name != "llvm.func" or "passthrough" not in function.attributes:
            continue
        for block in list(blocks(function)):
            for calls in list(_runs(block)):
                if len(calls) > _MOST:
                    for first in range(0, len(calls), _MOST):
                        _move(calls[first : first + _MOST], function, f"{_PIECE}.{number}")
                        number += 1
            _drop_unused(block)


def _runs(block: ir.Block) -> Iterator[list[ir.Operation]]:
    """Calls between which nothing has an effect but they, and nothing is read from memory."""
    calls: list[ir.Operation] = []
    for op in operations(block):
        if op.name == "llvm.call" and not len(op.results):
            calls.append(op)
        elif op.name not in _COPIED and not _is_of_frame(op):
            yield calls
            calls = []
    yield calls


def _is_of_frame(op: ir.Operation) -> bool:
    """Whether it loads a pointer that a caller has passed: none of these changes in a call."""
    if op.name != "llvm.load" or op.results[0].type != ir.Type.parse("!llvm.ptr"):
        return False
    address = op.operands[0]
    address = source_behind(address, "llvm.getelementptr")
    owner = address.owner
    return isinstance(owner, ir.Block) and owner == owner.region.blocks[0]


def _move(calls: Sequence[ir.Operation], function: ir.Operation, name: str) -> None:
    """Move the calls to a function, and call it in their place."""
    inside = dict[ir.Value, ir.Value]()
    given = list(dict.fromkeys(_given(calls)))
    with ir.InsertionPoint(function), function.location:
        piece = _declared(name, [value.type for value in given], function)
        block = piece.regions[0].blocks.append(
            *(value.type for value in given), arg_locs=[function.location] * len(given)
        )
        with ir.InsertionPoint(block):
            end = build.create("llvm.return", [], [])
    inside.update(zip(given, block.arguments, strict=True))
    with ir.InsertionPoint(calls[0]), calls[0].location:
        _call(name, given)
    for call in calls:
        call.move_before(end)
        with ir.InsertionPoint(call):
            for number, operand in enumerate(call.operands):
                call.operands[number] = _own(operand, inside)


def _given(calls: Sequence[ir.Operation]) -> Iterator[ir.Value]:
    """What the calls' operands are computed from."""

    def before(value: ir.Value) -> list[ir.Value]:
        return list(value.owner.operands)[::-1] if _is_copied(value) else []

    operands = [value for call in calls for value in call.operands][::-1]
    return (value for value in reached(operands, before) if not _is_copied(value))


def _is_copied(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and (owner.name in _COPIED or _is_of_frame(owner))


def _own(value: ir.Value, inside: dict[ir.Value, ir.Value]) -> ir.Value:
    """The value in a piece."""
    if value not in inside:
        operands = [_own(each, inside) for each in value.owner.operands]
        inside[value] = copy_onto(value.owner.operation, operands).results[0]
    return inside[value]


def _declared(name: str, types: Collection[ir.Type], like: ir.Operation) -> ir.Operation:
    inputs = ", ".join(map(str, types))
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "function_type": ir.TypeAttr.get(ir.Type.parse(f"!llvm.func<void ({inputs})>")),
        "linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
        "CConv": ir.Attribute.parse("#llvm.cconv<ccc>"),
        "no_inline": ir.UnitAttr.get(),
        "passthrough": like.attributes["passthrough"],
    }
    return build.create("llvm.func", [], [], attributes, regions=1)


def _call(name: str, values: Sequence[ir.Value]) -> None:
    attributes = {
        "callee": ir.FlatSymbolRefAttr.get(name),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(values), 0]),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
    }
    build.create("llvm.call", [], values, attributes)


def _drop_unused(block: ir.Block) -> None:
    ops = reversed(operations(block))
    drop_unused(op for op in ops if op.name in _COPIED or _is_of_frame(op))
