"""Build StableHLO ops at the current insertion point.

All values are ranked tensors of static shape. A scalar of the local form is a tensor of rank 0, and
an `index` is an `i64`; `tensor_of` and `replace` convert at their uses.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create, create_value, dense, i64, integer, is_used
from shard_dialect.ir.walk import is_made_by
from shard_dialect.model import Reduction

CAST = "builtin.unrealized_conversion_cast"
"""From a tensor to the scalar that stood for it before; gone when the conversion is done."""
COMBINERS: dict[Reduction, str] = {
    "sum": "add",
    "average": "add",
    "product": "multiply",
    "max": "maximum",
    "min": "minimum",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
"""For each reduction, the op that combines two elements."""


def replace(op: ir.Operation, values: Sequence[ir.Value]) -> None:
    """Replace the results of `op` by these tensors, and erase it."""
    with ir.InsertionPoint(op), op.location:
        for result, value in zip(op.results, values, strict=True):
            result.replace_all_uses_with(as_type(value, result.type))
    op.erase()


def as_type(value: ir.Value, type_: ir.Type) -> ir.Value:
    """The value itself, or cast to the scalar type, or tensor of indices, that ops expect still."""
    return value if value.type == type_ else create_value(CAST, type_, [value])


def tensor_of(value: ir.Value) -> ir.Value:
    """The tensor for a value of the local form. Raises `ShardError` if it is neither."""
    if tensor_type(value.type) == value.type:
        return value
    if is_made_by(value, CAST):
        return value.owner.operands[0]
    raise ShardError(f"a value of type {value.type} cannot be written as StableHLO")


def tensors_of(values: Sequence[ir.Value]) -> list[ir.Value]:
    """The tensor for each value."""
    return [tensor_of(each) for each in values]


def tensor_type(type_: ir.Type) -> ir.RankedTensorType:
    """The type of the tensor for a value of this type. Raises `ShardError` if there is none."""
    if isinstance(type_, ir.RankedTensorType):
        if not type_.has_static_shape:
            raise ShardError(f"a {type_} cannot be lowered: its sizes must be known")
        return tensor(type_.shape, _element(type_.element_type))
    if isinstance(type_, (ir.IndexType, ir.IntegerType, ir.FloatType, ir.ComplexType)):
        return tensor((), _element(type_))
    raise ShardError(f"a value of type {type_} cannot be written as StableHLO")


def _element(type_: ir.Type) -> ir.Type:
    if isinstance(type_, ir.IndexType):
        return integer(64)
    if isinstance(type_, ir.IntegerType) and type_.is_signed:
        return integer(type_.width)  # StableHLO's signless integers are signed
    return type_


def tensor(shape: Sequence[int], element: ir.Type) -> ir.RankedTensorType:
    """A type of this shape and element type."""
    return ir.RankedTensorType.get(list(shape), element)


def stablehlo_op(
    name: str,
    type_: ir.Type,
    operands: Sequence[ir.Value],
    attributes: dict[str, ir.Attribute] | None = None,
    regions: int = 0,
) -> ir.Value:
    """The result of `stablehlo.<name>`, or of `name` if that names a dialect."""
    whole = name if "." in name else f"stablehlo.{name}"
    return create_value(whole, type_, operands, attributes, regions)


def of_own_op(value: ir.Value) -> ir.Value:
    """The value, or a copy, made by an op that nothing reads yet and that has no other result.

    Annotations are attributes of ops: what a builder made of a value may be the value itself, whose
    op has its own.
    """
    is_argument = isinstance(value.owner, ir.Block)
    if not is_argument and len(value.owner.results) == 1 and not is_used(value):
        return value
    return stablehlo_op("reshape", value.type, [value])


def ends(values: Sequence[ir.Value]) -> None:
    """`stablehlo.return`."""
    create("stablehlo.return", [], values)


def elementwise(name: str, *operands: ir.Value) -> ir.Value:
    """The result of `stablehlo.<name>`, of the type of its operands."""
    return stablehlo_op(name, operands[0].type, operands)


def clamp(low: ir.Value, value: ir.Value, high: ir.Value) -> ir.Value:
    """`value`, at least `low` and at most `high`."""
    return stablehlo_op("clamp", value.type, [low, value, high])


def i64s(values: Sequence[int]) -> ir.Attribute:
    """An array of `i64`."""
    return ir.DenseI64ArrayAttr.get(list(values))


def constant(value: ir.Attribute) -> ir.Value:
    """The constant of a dense attribute."""
    return stablehlo_op("constant", value.type, [], {"value": value})


def splat(number: ir.Attribute, type_: ir.RankedTensorType) -> ir.Value:
    """A constant that repeats `number`, an element attribute of the type's element type."""
    return constant(ir.DenseElementsAttr.get_splat(type_, number))


def number(value: float, type_: ir.RankedTensorType) -> ir.Value:
    """A constant that repeats a Python number."""
    element = type_.element_type
    if isinstance(element, ir.ComplexType):
        return stablehlo_op("complex", type_, [number(each, _part(type_)) for each in (value, 0)])
    if isinstance(element, ir.FloatType):
        return splat(ir.FloatAttr.get(element, value), type_)
    return splat(ir.IntegerAttr.get(element, int(value)), type_)


def additive_identity(type_: ir.RankedTensorType) -> ir.Value:
    """Numbers that change none that they are added to: of floats -0.0, as -0.0 + 0.0 is 0.0."""
    if isinstance(type_.element_type, ir.ComplexType):
        return stablehlo_op("complex", type_, [additive_identity(_part(type_))] * 2)
    return number(-0.0, type_)


def _part(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of the real parts of a complex tensor."""
    return tensor(type_.shape, type_.element_type.element_type)


def integers(values: Sequence[int], element: ir.Type) -> ir.Value:
    """A constant of rank 1 with these integers."""
    return constant(dense(values, element))


def index(value: int) -> ir.Value:
    """An `i64` of rank 0."""
    return number(value, tensor((), integer(64)))


def table(values: Sequence[int] | Sequence[Sequence[int]], shape: Sequence[int]) -> ir.Attribute:
    """A dense attribute of `i64`, of rank 1 or 2."""
    flat = [each for row in values for each in (row if isinstance(row, Sequence) else (row,))]
    return dense(flat, integer(64), shape)


def reshape(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The same elements in another shape."""
    if list(value.type.shape) == list(shape):
        return value
    return stablehlo_op("reshape", tensor(shape, value.type.element_type), [value])


def broadcast(value: ir.Value, shape: Sequence[int], dims: Sequence[int] = ()) -> ir.Value:
    """The value repeated; dimension i of it is dimension `dims[i]` of the result."""
    if list(value.type.shape) == list(shape) and list(dims) == list(range(len(shape))):
        return value
    type_ = tensor(shape, value.type.element_type)
    return stablehlo_op("broadcast_in_dim", type_, [value], {"broadcast_dimensions": i64s(dims)})


def transpose(value: ir.Value, permutation: Sequence[int]) -> ir.Value:
    """Dimension i of the result is dimension `permutation[i]` of the value."""
    if list(permutation) == sorted(permutation):
        return value
    type_ = tensor([value.type.shape[dim] for dim in permutation], value.type.element_type)
    return stablehlo_op("transpose", type_, [value], {"permutation": i64s(permutation)})


def convert(value: ir.Value, element: ir.Type) -> ir.Value:
    """The elements converted to another type."""
    if value.type.element_type == element:
        return value
    return stablehlo_op("convert", tensor(value.type.shape, element), [value])


def bitcast(value: ir.Value, element: ir.Type) -> ir.Value:
    """The bits of the elements as another type of the same width."""
    if value.type.element_type == element:
        return value
    return stablehlo_op("bitcast_convert", tensor(value.type.shape, element), [value])


def compare(direction: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """`EQ`, `NE`, `LT`, `LE`, `GT` or `GE`; by the signedness of the type."""
    how = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
    bits = tensor(a.type.shape, integer(1))
    return stablehlo_op("compare", bits, [a, b], {"comparison_direction": how})


def direction_of(op: ir.Operation) -> str:
    """How a `stablehlo.compare` compares, as `compare` names it."""
    return enumerator(op.attributes["comparison_direction"])


def enumerator(attribute: ir.Attribute) -> str:
    """The name in an attribute of StableHLO: `LT` in `#stablehlo<comparison_direction LT>`."""
    return str(attribute).split()[-1].rstrip(">")


def select(condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    """Elements of `yes` where `condition`, of the same shape or of rank 0, holds, else of `no`."""
    return stablehlo_op("select", yes.type, [condition, yes, no])


def slice_(
    value: ir.Value, starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> ir.Value:
    """A slice at known offsets."""
    if list(sizes) == list(value.type.shape):
        return value
    limits = [
        start + (size - 1) * stride + 1 if size else start
        for start, size, stride in zip(starts, sizes, strides, strict=True)
    ]
    bounds = {
        "start_indices": i64s(starts),
        "limit_indices": i64s(limits),
        "strides": i64s(strides),
    }
    return stablehlo_op("slice", tensor(sizes, value.type.element_type), [value], bounds)


def slice_along(value: ir.Value, dim: int, start: int, size: int) -> ir.Value:
    """The `size` elements from `start` on along one dimension."""
    starts, sizes = [0] * value.type.rank, list(value.type.shape)
    starts[dim], sizes[dim] = start, size
    return slice_(value, starts, sizes, [1] * value.type.rank)


def index_along(value: ir.Value, dim: int, index: int) -> ir.Value:
    """The slice at `index` along a dimension, without that dimension."""
    shape = list(value.type.shape)
    return reshape(slice_along(value, dim, index, 1), [*shape[:dim], *shape[dim + 1 :]])


def dynamic_slice(value: ir.Value, starts: Sequence[ir.Value], sizes: Sequence[int]) -> ir.Value:
    """A slice at offsets that are computed, integers of rank 0."""
    type_ = tensor(sizes, value.type.element_type)
    return stablehlo_op("dynamic_slice", type_, [value, *starts], {"slice_sizes": i64s(sizes)})


def slice_at(value: ir.Value, dim: int, start: ir.Value, size: int) -> ir.Value:
    """The `size` elements along one dimension from an offset on that is computed."""
    sizes = list(value.type.shape)
    sizes[dim] = size
    return dynamic_slice(value, _starts(value, dim, start), sizes)


def update_at(value: ir.Value, update: ir.Value, dim: int, start: ir.Value) -> ir.Value:
    """`value` with `update` written over it from this offset along one dimension on."""
    return dynamic_update(value, update, _starts(value, dim, start))


def _starts(value: ir.Value, dim: int, start: ir.Value) -> list[ir.Value]:
    zero = number(0, start.type)
    return [start if each == dim else zero for each in range(value.type.rank)]


def dynamic_update(value: ir.Value, update: ir.Value, starts: Sequence[ir.Value]) -> ir.Value:
    """`value` with `update` written over it at these offsets."""
    return stablehlo_op("dynamic_update_slice", value.type, [value, update, *starts])


def concatenate(values: Sequence[ir.Value], dim: int = 0) -> ir.Value:
    """The values one after the other along `dim`."""
    if len(values) == 1:
        return values[0]
    shape = list(values[0].type.shape)
    shape[dim] = sum(each.type.shape[dim] for each in values)
    type_ = tensor(shape, values[0].type.element_type)
    return stablehlo_op("concatenate", type_, values, {"dimension": i64(dim)})


def iota(shape: Sequence[int], dim: int) -> ir.Value:
    """Indices along `dim`, as `i64`."""
    return stablehlo_op("iota", tensor(shape, integer(64)), [], {"iota_dimension": i64(dim)})


def pad(
    value: ir.Value,
    content: ir.Value,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
) -> ir.Value:
    """`value` with `content`, of rank 0, around it and between its elements."""
    shape = [
        before + size + max(size - 1, 0) * between + after
        for before, size, between, after in zip(low, value.type.shape, interior, high, strict=True)
    ]
    sizes = {
        "edge_padding_low": i64s(low),
        "edge_padding_high": i64s(high),
        "interior_padding": i64s(interior),
    }
    return stablehlo_op("pad", tensor(shape, value.type.element_type), [value, content], sizes)


def elements_at(value: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
    """The elements of `value` at indices that are computed: one `i64` tensor for each dimension.

    The indices, of one shape, give the shape of the result.
    """
    rank, shape = value.type.rank, list(indices[0].type.shape) if indices else []
    if not rank:
        return broadcast(value, shape)
    columns = [reshape(each, [*shape, 1]) for each in indices]
    dims = ir.Attribute.parse(
        "#stablehlo.gather<"
        f"collapsed_slice_dims = [{', '.join(map(str, range(rank)))}], "
        f"start_index_map = [{', '.join(map(str, range(rank)))}], "
        f"index_vector_dim = {len(shape)}>"
    )
    attributes = {"dimension_numbers": dims, "slice_sizes": i64s([1] * rank)}
    type_ = tensor(shape, value.type.element_type)
    return stablehlo_op("gather", type_, [value, concatenate(columns, len(shape))], attributes)


def reduce(value: ir.Value, kind: str, identity: ir.Value, dims: Sequence[int]) -> ir.Value:
    """Join the elements along `dims` by `stablehlo.<kind>`; `identity` is of rank 0."""
    shape = [size for dim, size in enumerate(value.type.shape) if dim not in dims]
    type_ = tensor(shape, value.type.element_type)
    result = stablehlo_op("reduce", type_, [value, identity], {"dimensions": i64s(dims)}, 1)
    fill_combiner(result.owner, kind, value.type.element_type)
    return result


def fill_combiner(op: ir.Operation, kind: str, element: ir.Type) -> None:
    """Give the op's region the block `(a, b) -> stablehlo.<kind>(a, b)`."""
    one = tensor((), element)
    block = op.regions[0].blocks.append(one, one, arg_locs=[op.location] * 2)
    with ir.InsertionPoint(block), op.location:
        ends([stablehlo_op(kind, one, list(block.arguments))])
