"""Ops of `tensor` as StableHLO's: slices, shapes and new tensors.

tensor.extract_slice %x[0, 2] [4, 4] [1, 1]     stablehlo.slice
tensor.extract_slice %x[%i, 0] [4, 4] [1, 1]    stablehlo.dynamic_slice
tensor.insert_slice                             stablehlo.dynamic_update_slice
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import DYNAMIC
from shard_dialect.passes.lower.to_stablehlo.stablehlo_builder import (
    bitcast,
    broadcast,
    concatenate,
    dynamic_slice,
    dynamic_update,
    elements_at,
    index,
    integer,
    number,
    pad,
    reshape,
    select,
    slice_,
    tensor,
    tensor_of,
    tensor_type,
    tensors_of,
)


def _empty(op: ir.Operation) -> ir.Value:
    return number(0, tensor_type(op.results[0].type))


def _extract(op: ir.Operation) -> ir.Value:
    value, *at = tensors_of(op.operands)
    return elements_at(value, at)


def _insert(op: ir.Operation) -> ir.Value:
    element, value, *at = tensors_of(op.operands)
    return dynamic_update(value, reshape(element, [1] * value.type.rank), at)


def _bounds(op: ir.Operation, first: int) -> tuple[list[ir.Value | int], list[int], list[int]]:
    """The offsets, sizes and strides; unknown offsets are the operands from `first` on."""
    dynamic = iter(tensors_of(list(op.operands)[first:]))
    offsets = [next(dynamic) if at == DYNAMIC else at for at in op.attributes["static_offsets"]]
    sizes, strides = (list(op.attributes[f"static_{name}"]) for name in ("sizes", "strides"))
    slice_type = op.results[0].type if first == 1 else op.operands[0].type
    if DYNAMIC in sizes and slice_type.rank == len(sizes):
        sizes = list(slice_type.shape)  # what upstream may know of sizes that are values
    if DYNAMIC in (*sizes, *strides):
        raise ShardError("a slice of a size or with a stride that is not known cannot be lowered")
    return offsets, sizes, strides


def _starts(offsets: list[ir.Value | int]) -> list[ir.Value]:
    return [index(each) if isinstance(each, int) else each for each in offsets]


def _extract_slice(op: ir.Operation) -> ir.Value:
    value = tensor_of(op.operands[0])
    offsets, sizes, strides = _bounds(op, 1)
    known = [each for each in offsets if isinstance(each, int)]
    if len(known) == len(offsets):
        result = slice_(value, known, sizes, strides)
    else:
        spans = [(size - 1) * stride + 1 for size, stride in zip(sizes, strides, strict=True)]
        result = dynamic_slice(value, _starts(offsets), spans)
        result = slice_(result, [0] * len(sizes), sizes, strides)
    return reshape(result, op.results[0].type.shape)


def _insert_slice(op: ir.Operation) -> ir.Value:
    update, value = tensors_of(list(op.operands)[:2])
    offsets, sizes, strides = _bounds(op, 2)
    if 0 in sizes:
        return value
    update, starts = reshape(update, sizes), _starts(offsets)
    if set(strides) <= {1}:
        return dynamic_update(value, update, starts)
    between, none = [stride - 1 for stride in strides], [0] * len(sizes)
    element = update.type.element_type
    spread = pad(update, number(0, tensor([], element)), none, none, between)
    ones = number(1, tensor(sizes, integer(1)))
    written = pad(ones, number(0, tensor([], integer(1))), none, none, between)
    kept = dynamic_slice(value, starts, spread.type.shape)
    return dynamic_update(value, select(written, spread, kept), starts)


def _reshape(op: ir.Operation) -> ir.Value:
    return reshape(tensor_of(op.operands[0]), tensor_type(op.results[0].type).shape)


def _same(op: ir.Operation) -> ir.Value:
    value, type_ = tensor_of(op.operands[0]), tensor_type(op.results[0].type)
    if value.type != type_:
        raise ShardError(f"a cast from {value.type} to {type_} cannot be written as StableHLO")
    return value


def _bitcast(op: ir.Operation) -> ir.Value:
    return bitcast(tensor_of(op.operands[0]), tensor_type(op.results[0].type).element_type)


def _concat(op: ir.Operation) -> ir.Value:
    return concatenate(tensors_of(op.operands), op.attributes["dim"].value)


def _splat(op: ir.Operation) -> ir.Value:
    return broadcast(tensor_of(op.operands[0]), op.results[0].type.shape)


def _from_elements(op: ir.Operation) -> ir.Value:
    rows = [reshape(each, [1]) for each in tensors_of(op.operands)]
    return reshape(concatenate(rows, 0), op.results[0].type.shape)


def _dim(op: ir.Operation) -> ir.Value:
    sizes = op.operands[0].type.shape
    at = tensor_of(op.operands[1])
    listed = [reshape(index(size), [1]) for size in sizes]
    return elements_at(concatenate(listed, 0), [at])


def _rank(op: ir.Operation) -> ir.Value:
    return index(op.operands[0].type.rank)


SLICES: dict[str, Callable[[ir.Operation], ir.Value]] = {
    "bufferization.alloc_tensor": lambda op: (
        tensor_of(op.operands[0]) if list(op.operands) else _empty(op)
    ),
    "tensor.bitcast": _bitcast,
    "tensor.cast": _same,
    "tensor.collapse_shape": _reshape,
    "tensor.concat": _concat,
    "tensor.dim": _dim,
    "tensor.empty": _empty,
    "tensor.expand_shape": _reshape,
    "tensor.extract": _extract,
    "tensor.extract_slice": _extract_slice,
    "tensor.from_elements": _from_elements,
    "tensor.insert": _insert,
    "tensor.insert_slice": _insert_slice,
    "tensor.rank": _rank,
    "tensor.reshape": _reshape,
    "tensor.splat": _splat,
}
"""For each op, what gives the tensor of its one result."""
