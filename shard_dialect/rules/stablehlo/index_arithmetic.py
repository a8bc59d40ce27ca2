"""StableHLO ops that partitioning creates around an op, at the insertion point."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create


def constant(values: Sequence[int], element: ir.Type) -> ir.Value:
    """A constant tensor of rank 1 with these integers."""
    type_ = ir.RankedTensorType.get([len(values)], element)
    listed = ir.DenseElementsAttr.get([ir.IntegerAttr.get(element, v) for v in values], type_)
    return create("stablehlo.constant", [type_], [], {"value": listed}).results[0]


def repeated(number: float, type_: ir.RankedTensorType) -> ir.Value:
    """A constant tensor with `number` in every element."""
    element = type_.element_type
    if isinstance(element, ir.ComplexType):
        real = ir.RankedTensorType.get(type_.shape, element.element_type)
        parts = [repeated(number, real), repeated(0, real)]
        return create("stablehlo.complex", [type_], parts).results[0]
    kind = ir.IntegerAttr if isinstance(element, ir.IntegerType) else ir.FloatAttr
    value = ir.DenseElementsAttr.get_splat(type_, kind.get(element, number))
    return create("stablehlo.constant", [type_], [], {"value": value}).results[0]


def joined(a: ir.Value, b: ir.Value, name: str) -> ir.Value:
    """The elementwise op `name` (`subtract`, say) on two tensors of one type."""
    return create(f"stablehlo.{name}", [a.type], [a, b]).results[0]


def clamped(low: ir.Value, value: ir.Value, high: ir.Value) -> ir.Value:
    """`value` clamped to `low` and `high`."""
    return create("stablehlo.clamp", [value.type], [low, value, high]).results[0]


def converted(value: ir.Value, element: ir.Type) -> ir.Value:
    """`value` with elements of type `element`."""
    type_ = ir.RankedTensorType.get(value.type.shape, element)
    is_so = type_ == value.type
    return value if is_so else create("stablehlo.convert", [type_], [value]).results[0]


def equal(a: ir.Value, b: ir.Value) -> ir.Value:
    """A tensor of i1: whether the elements are equal."""
    type_ = ir.RankedTensorType.get(a.type.shape, ir.IntegerType.get_signless(1))
    attributes = {"comparison_direction": ir.Attribute.parse("#stablehlo<comparison_direction EQ>")}
    return create("stablehlo.compare", [type_], [a, b], attributes).results[0]


def selected(where: ir.Value, value: ir.Value, other: ir.Value) -> ir.Value:
    """The elements of `value` where `where` is true, of `other` elsewhere."""
    return create("stablehlo.select", [value.type], [where, value, other]).results[0]


def reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """`value` in another shape."""
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return create("stablehlo.reshape", [type_], [value]).results[0]


def broadcast(value: ir.Value, shape: Sequence[int], dims: Sequence[int]) -> ir.Value:
    """`value` in `shape`; its dimensions become `dims`."""
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    if type_ == value.type:  # dimensions come in order here
        return value
    attributes = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get(list(dims))}
    return create("stablehlo.broadcast_in_dim", [type_], [value], attributes).results[0]


def padded(value: ir.Value, rooms: Sequence[int]) -> ir.Value:
    """`value` with `rooms[dim]` zeros at both ends of each dimension."""
    shape = [size + 2 * room for size, room in zip(value.type.shape, rooms, strict=True)]
    element = value.type.element_type
    zero = repeated(0, ir.RankedTensorType.get([], element))
    listed = {
        "edge_padding_low": rooms,
        "edge_padding_high": rooms,
        "interior_padding": [0] * len(rooms),
    }
    attributes = {name: ir.DenseI64ArrayAttr.get(list(each)) for name, each in listed.items()}
    type_ = ir.RankedTensorType.get(shape, element)
    return create("stablehlo.pad", [type_], [value, zero], attributes).results[0]


def concatenated(values: Sequence[ir.Value]) -> ir.Value:
    """The concatenation of tensors of rank 1."""
    if len(values) == 1:
        return values[0]
    size = sum(value.type.shape[0] for value in values)
    type_ = ir.RankedTensorType.get([size], values[0].type.element_type)
    dim = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    return create("stablehlo.concatenate", [type_], values, {"dimension": dim}).results[0]


def sliced(value: ir.Value, dim: int, begin: int, size: int) -> ir.Value:
    """`size` elements along a dimension, from `begin` on."""
    shape = list(value.type.shape)
    if shape[dim] == size:
        return value
    begins, ends = [0] * len(shape), shape.copy()
    begins[dim], ends[dim] = begin, begin + size
    listed = {"start_indices": begins, "limit_indices": ends, "strides": [1] * len(shape)}
    attributes = {name: ir.DenseI64ArrayAttr.get(each) for name, each in listed.items()}
    shape[dim] = size
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return create("stablehlo.slice", [type_], [value], attributes).results[0]


def element_at(value: ir.Value, dim: int, index: int) -> ir.Value:
    """The slice at `index` along a dimension, without that dimension."""
    shape = list(value.type.shape)
    return reshaped(sliced(value, dim, index, 1), [*shape[:dim], *shape[dim + 1 :]])
