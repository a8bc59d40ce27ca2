"""Ops of `tensor` as StableHLO's: slices, shapes and new tensors.

tensor.extract_slice %x[0, 2] [4, 4] [1, 1]     stablehlo.slice
tensor.extract_slice %x[%i, 0] [4, 4] [1, 1]    stablehlo.dynamic_slice
tensor.insert_slice                             stablehlo.dynamic_update_slice
"""

from __future__ import annotations

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import integer
from shard_dialect.ir.mesh.attributes import DYNAMIC


def empty(op: ir.Operation) -> ir.Value:
    """Zeros, since nothing reads the elements."""
    return hlo.number(0, hlo.tensor_type(op.results[0].type))


def extract(op: ir.Operation) -> ir.Value:
    """One element."""
    value, *at = hlo.tensors_of(op.operands)
    return hlo.elements_at(value, at)


def insert(op: ir.Operation) -> ir.Value:
    """The tensor with one element replaced."""
    element, value, *at = hlo.tensors_of(op.operands)
    return hlo.dynamic_update(value, hlo.reshape(element, [1] * value.type.rank), at)


def _bounds(op: ir.Operation, first: int) -> tuple[list[ir.Value | int], list[int], list[int]]:
    """The offsets, sizes and strides; unknown offsets are the operands from `first` on."""
    dynamic = iter(hlo.tensors_of(list(op.operands)[first:]))
    offsets = [next(dynamic) if at == DYNAMIC else at for at in op.attributes["static_offsets"]]
    sizes, strides = (list(op.attributes[f"static_{name}"]) for name in ("sizes", "strides"))
    slice_type = op.results[0].type if first == 1 else op.operands[0].type
    if DYNAMIC in sizes and slice_type.rank == len(sizes):
        sizes = list(slice_type.shape)  # upstream may know sizes that are values
    if DYNAMIC in (*sizes, *strides):
        raise ShardError("a slice of a size or with a stride that is not known cannot be lowered")
    return offsets, sizes, strides


def _starts(offsets: list[ir.Value | int]) -> list[ir.Value]:
    return [hlo.index(each) if isinstance(each, int) else each for each in offsets]


def extract_slice(op: ir.Operation) -> ir.Value:
    """A slice, whose strides are applied after its offsets."""
    value = hlo.tensor_of(op.operands[0])
    offsets, sizes, strides = _bounds(op, 1)
    known = [each for each in offsets if isinstance(each, int)]
    if len(known) == len(offsets):
        result = hlo.slice_(value, known, sizes, strides)
    else:
        spans = [(size - 1) * stride + 1 for size, stride in zip(sizes, strides, strict=True)]
        result = hlo.dynamic_slice(value, _starts(offsets), spans)
        result = hlo.slice_(result, [0] * len(sizes), sizes, strides)
    return hlo.reshape(result, op.results[0].type.shape)


def insert_slice(op: ir.Operation) -> ir.Value:
    """The tensor with a slice replaced; between strides it keeps its elements."""
    update, value = hlo.tensors_of(list(op.operands)[:2])
    offsets, sizes, strides = _bounds(op, 2)
    if 0 in sizes:
        return value
    update, starts = hlo.reshape(update, sizes), _starts(offsets)
    if set(strides) <= {1}:
        return hlo.dynamic_update(value, update, starts)
    between, none = [stride - 1 for stride in strides], [0] * len(sizes)
    element = update.type.element_type
    spread = hlo.pad(update, hlo.number(0, hlo.tensor([], element)), none, none, between)
    ones = hlo.number(1, hlo.tensor(sizes, integer(1)))
    written = hlo.pad(ones, hlo.number(0, hlo.tensor([], integer(1))), none, none, between)
    kept = hlo.dynamic_slice(value, starts, spread.type.shape)
    return hlo.dynamic_update(value, hlo.select(written, spread, kept), starts)


def reshape_tensor(op: ir.Operation) -> ir.Value:
    """The elements in the shape of the result."""
    return hlo.reshape(hlo.tensor_of(op.operands[0]), hlo.tensor_type(op.results[0].type).shape)


def same(op: ir.Operation) -> ir.Value:
    """The operand itself. Raises `ShardError` for one of another type."""
    value, type_ = hlo.tensor_of(op.operands[0]), hlo.tensor_type(op.results[0].type)
    if value.type != type_:
        raise ShardError(f"a cast from {value.type} to {type_} cannot be written as StableHLO")
    return value


def bitcast_tensor(op: ir.Operation) -> ir.Value:
    """The same bits as elements of the result."""
    return hlo.bitcast(
        hlo.tensor_of(op.operands[0]), hlo.tensor_type(op.results[0].type).element_type
    )


def concat(op: ir.Operation) -> ir.Value:
    """The operands, joined along the dimension `dim`."""
    return hlo.concatenate(hlo.tensors_of(op.operands), op.attributes["dim"].value)


def splat(op: ir.Operation) -> ir.Value:
    """One number for all elements."""
    return hlo.broadcast(hlo.tensor_of(op.operands[0]), op.results[0].type.shape)


def from_elements(op: ir.Operation) -> ir.Value:
    """The tensor of these elements."""
    rows = [hlo.reshape(each, [1]) for each in hlo.tensors_of(op.operands)]
    return hlo.reshape(hlo.concatenate(rows, 0), op.results[0].type.shape)


def dim(op: ir.Operation) -> ir.Value:
    """The size of a dimension."""
    sizes = op.operands[0].type.shape
    at = hlo.tensor_of(op.operands[1])
    listed = [hlo.reshape(hlo.index(size), [1]) for size in sizes]
    return hlo.elements_at(hlo.concatenate(listed, 0), [at])


def rank(op: ir.Operation) -> ir.Value:
    """The number of dimensions."""
    return hlo.index(op.operands[0].type.rank)


def allocated(op: ir.Operation) -> ir.Value:
    """A `bufferization.alloc_tensor`: a copy of its operand, if it has one."""
    return hlo.tensor_of(op.operands[0]) if list(op.operands) else empty(op)
