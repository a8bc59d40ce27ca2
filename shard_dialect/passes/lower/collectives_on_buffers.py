"""Let collectives on buffers be on tensors, as `lower` takes them.

    %r = shard.all_reduce %m on @g grid_axes = [0] : memref<4xf32> -> memref<4xf32>

becomes

    %a = memref.alloc() : memref<4xf32>
    memref.copy %m, %a
    %t = bufferization.to_tensor %a restrict
    %u = shard.all_reduce %t on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
    %r = memref.alloc() : memref<4xf32>
    bufferization.materialize_in_destination %u in restrict writable %r

The copy is read later than %m may be written to: tensors have no order. An update of halos is in
place, and what is sent is the operand itself.
"""

from __future__ import annotations

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.shard.local_collectives import LOCAL_COLLECTIVES
from shard_dialect.ir.walk import walk

_RETURNS_OPERAND = ("shard.send", "shard.update_halo")
_IN_PLACE = "shard.update_halo"


def to_collectives_on_tensors(module: ir.Operation) -> None:
    """Replace the operands and results of collectives that are buffers, in place."""
    for op in walk(module):
        values = [*op.operands, *op.results] if op.name in LOCAL_COLLECTIVES else []
        if any(isinstance(value.type, ir.MemRefType) for value in values):
            with located(op):
                _replace(op)


def _replace(op: ir.Operation) -> None:
    operands = list(op.operands)
    types = [_tensor_type(op.results[0].type)]
    with ir.InsertionPoint(op), op.location:
        tensors = [_copied(value) for value in operands]
        attributes = {name: op.attributes[name] for name in op.attributes}
        (result,) = build.create(op.name, types, tensors, attributes).results
        old = op.results[0]
        if isinstance(old.type, ir.MemRefType):
            into = operands[0] if op.name in _RETURNS_OPERAND else _allocated(old.type)
            if op.name == _IN_PLACE or op.name not in _RETURNS_OPERAND:
                _write(result, into)
            result = into
    old.replace_all_uses_with(result)
    op.erase()


def _tensor_type(type_: ir.Type) -> ir.Type:
    if not isinstance(type_, ir.MemRefType):
        return type_
    if not type_.has_static_shape:
        raise ShardError(f"is on a {type_}, whose size is not known: it cannot be lowered yet")
    return ir.RankedTensorType.get(type_.shape, type_.element_type)


def _copied(value: ir.Value) -> ir.Value:
    """The tensor of a buffer as it is now; any other value itself."""
    if not isinstance(value.type, ir.MemRefType):
        return value
    type_ = _tensor_type(value.type)
    copy = _allocated(value.type)
    build.create("memref.copy", [], [value, copy])
    restrict = {"restrict": ir.UnitAttr.get()}
    return build.create("bufferization.to_tensor", [type_], [copy], restrict).results[0]


def _allocated(type_: ir.MemRefType) -> ir.Value:
    contiguous = ir.MemRefType.get(type_.shape, type_.element_type)
    return build.allocate(contiguous).results[0]


def _write(tensor: ir.Value, into: ir.Value) -> None:
    flags = {name: ir.UnitAttr.get() for name in ("restrict", "writable")}
    build.create("bufferization.materialize_in_destination", [], [tensor, into], flags)
