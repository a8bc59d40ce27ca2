"""Functions that create ops of upstream's dialects, at the insertion point, or replace ops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, MutableMapping, Sequence
from math import prod

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.walk import operations, source_behind


def create(
    name: str,
    results: Sequence[ir.Type],
    operands: Sequence[ir.Value],
    attributes: dict[str, ir.Attribute] | None = None,
    regions: int = 0,
) -> ir.Operation:
    """Create an op at the current insertion point and location."""
    return ir.Operation.create(
        name,
        results=list(results),
        operands=list(operands),
        attributes=attributes or {},
        regions=regions,
    )


def create_value(
    name: str,
    type_: ir.Type,
    operands: Sequence[ir.Value],
    attributes: dict[str, ir.Attribute] | None = None,
    regions: int = 0,
) -> ir.Value:
    """The one result, of type `type_`, of the op that `create` makes."""
    return create(name, [type_], operands, attributes, regions).results[0]


def integer(width: int) -> ir.IntegerType:
    """The signless integer type of this width."""
    return ir.IntegerType.get_signless(width)


def i64(value: int) -> ir.Attribute:
    """An attribute of 64 bits, as most ops have."""
    return ir.IntegerAttr.get(integer(64), value)


def cast(name: str, value: ir.Value, type_: ir.Type) -> ir.Value:
    """The result, of type `type_`, of a conversion; the value itself if it has that type."""
    return value if value.type == type_ else create_value(name, type_, [value])


def to_index(value: ir.Value) -> ir.Value:
    """An integer as an index."""
    return cast("arith.index_cast", value, ir.IndexType.get())


def arith(name: str, *operands: ir.Value) -> ir.Value:
    """The result of `arith.name`, of the type of its operands; of a selection, of the last one."""
    return create_value(f"arith.{name}", operands[-1].type, operands)


def select(condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    """`yes` where the condition holds, else `no`."""
    return arith("select", condition, yes, no)


def redirect(uses: Sequence[ir.OpOperand], value: ir.Value) -> None:
    """Replace the operands in `uses` by `value`."""
    for use in uses:
        use.owner.operands[use.operand_number] = value


def replace_values(values: Iterable[ir.Value], others: Iterable[ir.Value]) -> None:
    """Let all that read one of `values` read the other one instead."""
    for value, other in zip(values, others, strict=True):
        value.replace_all_uses_with(other)


def replace_op(op: ir.Operation, *values: ir.Value) -> None:
    """Replace the results of an op by these values, and erase it."""
    replace_values(op.results, values)
    op.erase()


def copy_onto(op: ir.Operation, operands: Iterable[ir.Value]) -> ir.Operation:
    """A copy of an op, at the insertion point, with these as its first operands."""
    copy: ir.Operation = op.clone().operation
    for number, operand in enumerate(operands):
        copy.operands[number] = operand
    return copy


def copy_along(op: ir.Operation, copies: MutableMapping[ir.Value, ir.Value]) -> None:
    """Copy an op, which reads copies of values where there are some; add its results to them."""
    copy = copy_onto(op, [copies.get(each, each) for each in op.operands])
    copies.update(zip(op.results, copy.results, strict=True))


def drop_unused(ops: Iterable[ir.Operation]) -> bool:
    """Erase those of the ops, in this order, of which no op reads a result, if there are any."""
    dropped = False
    for op in ops:
        if not is_used(*op.results):
            op.erase()
            dropped = True
    return dropped


def is_used(*values: ir.Value) -> bool:
    """Whether an op reads one of these values."""
    return any(True for value in values for _ in value.uses)


def without_carried(
    loop: ir.Operation, dropped: Collection[int], inits: Sequence[ir.Value]
) -> ir.Operation:
    """Write a loop anew in front of it, which does not carry the values of these numbers.

    `inits` are the operands of `loop`, which is left without blocks. Nothing in it but its end
    reads what is dropped. The last operands, arguments of blocks, and results are what it carries.
    """
    count = len(loop.results)

    def kept(values: Sequence[ir.Value]) -> list[ir.Value]:
        first = len(values) - count
        return [value for at, value in enumerate(values) if at - first not in dropped]

    types = [result.type for result in kept(loop.results)]
    attributes = {each.name: each.attr for each in loop.attributes}
    with ir.InsertionPoint(loop), loop.location:
        new = create(loop.name, types, kept(inits), attributes, len(loop.regions))
    end = operations(loop.regions[len(loop.regions) - 1].blocks[0])[-1]
    with ir.InsertionPoint(end), end.location:
        create(end.name, [], kept(end.operands))
    end.erase()
    for old, region in zip(list(loop.regions), new.regions, strict=True):
        block = old.blocks[0]
        first = len(block.arguments) - count
        for number in sorted(dropped, reverse=True):
            block.erase_argument(first + number)
        block.append_to(region)
    return new


def annotate(
    value: ir.Value,
    sharding: ir.Attribute,
    sizes: Sequence[ir.Value] = (),
    *,
    as_result: bool,
    required: bool = True,
) -> ir.Value:
    """`mesh.annotate`; `sizes` are the values of the sharding's unknown sizes."""
    attributes = {
        "sharding": sharding,
        "required": ir.BoolAttr.get(required),
        "as_result": ir.BoolAttr.get(as_result),
    }
    return create_value("mesh.annotate", value.type, [value, *sizes], attributes)


def empty(type_: ir.RankedTensorType) -> ir.Value:
    """`tensor.empty` of a static type."""
    return create_value("tensor.empty", type_, [])


def allocate(type_: ir.MemRefType, *, on_stack: bool = False) -> ir.Value:
    """A buffer of static shape; one on the stack is freed when its function returns."""
    segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])}
    return create_value("memref.alloca" if on_stack else "memref.alloc", type_, [], segments)


def allocate_tensor(type_: ir.RankedTensorType) -> ir.Value:
    """An uninitialized tensor of static shape in its own buffer."""
    segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0, 0])}
    return create_value("bufferization.alloc_tensor", type_, [], segments)


def allocate_copy(value: ir.Value) -> ir.Value:
    """A copy of `value` in its own buffer."""
    segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 1, 0])}
    return create_value("bufferization.alloc_tensor", value.type, [value], segments)


def buffer_of(tensor: ir.Value) -> ir.Value:
    """The buffer of a tensor, for reading only."""
    type_ = ir.MemRefType.get(tensor.type.shape, tensor.type.element_type)
    read_only = {"read_only": ir.UnitAttr.get()}
    return create_value("bufferization.to_buffer", type_, [tensor], read_only)


def tensor_of(filled: ir.Value) -> ir.Value:
    """The tensor in a buffer to which nothing more is written."""
    type_ = ir.RankedTensorType.get(filled.type.shape, filled.type.element_type)
    owned = {"restrict": ir.UnitAttr.get(), "writable": ir.UnitAttr.get()}
    return create_value("bufferization.to_tensor", type_, [filled], owned)


def scalar(attribute: ir.Attribute) -> ir.Value:
    """`arith.constant` of a typed attribute."""
    return create_value("arith.constant", attribute.type, [], {"value": attribute})


def index_switch(
    index: ir.Value, types: Sequence[ir.Type], count: int
) -> tuple[ir.Operation, list[ir.Region]]:
    """An `scf.index_switch`, and its regions for 0, 1, ..., and then for all other numbers."""
    cases = {"cases": ir.DenseI64ArrayAttr.get(list(range(count - 1)))}
    switch = create("scf.index_switch", types, [index], cases, count)
    default, *others = switch.regions  # in the op it is the first
    return switch, [*others, default]


def inline_before(op: ir.Operation, block: ir.Block) -> list[ir.Value]:
    """Move the ops of a block before `op`, but for the last; returns the operands of that."""
    *inside, end = operations(block)
    for each in inside:
        each.move_before(op)
    return list(end.operands)


def dense(
    numbers: Sequence[int], element: ir.Type, shape: Sequence[int] | None = None
) -> ir.Attribute:
    """The integers of a constant tensor, which is of rank 1 unless a shape is given."""
    type_ = ir.RankedTensorType.get([len(numbers)] if shape is None else shape, element)
    return ir.DenseElementsAttr.get([ir.IntegerAttr.get(element, each) for each in numbers], type_)


def declare(
    name: str,
    type_: ir.FunctionType,
    attributes: dict[str, ir.Attribute] | None = None,
) -> ir.Operation:
    """A private function without a body."""
    return create(
        "func.func",
        [],
        [],
        {
            "sym_name": ir.StringAttr.get(name),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(type_),
            **(attributes or {}),
        },
        regions=1,
    )


def call(name: str, operands: Sequence[ir.Value], results: Sequence[ir.Type] = ()) -> ir.Operation:
    """`func.call` of the function `name`."""
    return create("func.call", results, operands, {"callee": ir.FlatSymbolRefAttr.get(name)})


def number(value: float, type_: ir.Type) -> ir.Value:
    """A constant of a type of floats, integers or indices."""
    is_float = isinstance(type_, ir.FloatType)
    return scalar((ir.FloatAttr if is_float else ir.IntegerAttr).get(type_, value))


def index(value: int) -> ir.Value:
    """A constant of type `index`."""
    return number(value, ir.IndexType.get())


def compare(how: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """`arith.cmpi` or `arith.cmpf` of two scalars, by the name of the predicate."""
    is_float = isinstance(a.type, ir.FloatType)
    number = i64((_OF_FLOATS if is_float else OF_INTEGERS).index(how))
    name = "arith.cmpf" if is_float else "arith.cmpi"
    return create_value(name, integer(1), [a, b], {"predicate": number})


OF_INTEGERS = "eq ne slt sle sgt sge ult ule ugt uge".split()
_OF_FLOATS = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
"""The predicates in the order of their numbers."""


def flat(value: ir.Value) -> ir.Value:
    """A tensor of static shape reshaped to rank 1."""
    shape = list(value.type.shape)
    if len(shape) == 1:
        return value
    type_ = ir.RankedTensorType.get([prod(shape)], value.type.element_type)
    if not shape:
        return _expanded(value, type_, [])
    return create_value(
        "tensor.collapse_shape", type_, [value], {"reassociation": _all(len(shape))}
    )


def unflatten(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The inverse of `flat`."""
    type_ = ir.RankedTensorType.get(list(shape), value.type.element_type)
    if len(shape) == 1:
        return value
    if not shape:
        none = {"reassociation": ir.ArrayAttr.get([])}
        return create_value("tensor.collapse_shape", type_, [value], none)
    return _expanded(value, type_, list(shape))


def _expanded(value: ir.Value, type_: ir.RankedTensorType, shape: list[int]) -> ir.Value:
    attributes = {
        "reassociation": _all(len(shape)),
        "static_output_shape": ir.DenseI64ArrayAttr.get(list(type_.shape)),
    }
    return create_value("tensor.expand_shape", type_, [value], attributes)


def _all(rank: int) -> ir.ArrayAttr:
    """The reassociation of `rank` dimensions into one."""
    return ir.ArrayAttr.get([ir.ArrayAttr.get(list(map(i64, range(rank))))] if rank else [])


def concatenated(values: Sequence[ir.Value], dim: int) -> ir.Value:
    """The tensors one after another along `dim`."""
    shape = list(values[0].type.shape)
    shape[dim] = sum(each.type.shape[dim] for each in values)
    along = {"dim": i64(dim)}
    return create_value("tensor.concat", resized(values[0].type, shape), values, along)


def extract_slice(value: ir.Value, start: int | ir.Value, size: int, dim: int = 0) -> ir.Value:
    """The slice of `size` elements along `dim` from `start` on, an integer or an index value."""
    shape = list(value.type.shape)
    shape[dim] = size
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    if 0 in shape:  # no offset is in bounds of a tensor without elements
        return empty(type_)
    if isinstance(start, int):
        attributes = _slice(shape, dim, start, [1, 0, 0, 0])
        return create_value("tensor.extract_slice", type_, [value], attributes)
    attributes = _slice(shape, dim, ir.ShapedType.get_dynamic_size(), [1, 1, 0, 0])
    return create_value("tensor.extract_slice", type_, [value, start], attributes)


def copy(value: ir.Value, into: ir.Value) -> ir.Operation:
    """`linalg.copy` between tensors or buffers, with its body."""
    return _linalg("copy", value, into, {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])})


def copies_to_loops(ops: Iterable[ir.Operation]) -> None:
    """Replace each `memref.copy` among the ops by a `linalg.copy`."""
    for op in ops:
        if op.name == "memref.copy":
            with ir.InsertionPoint(op), op.location:
                copy(*op.operands)
            op.erase()


def transpose(value: ir.Value, into: ir.Value, permutation: Sequence[int]) -> ir.Operation:
    """`linalg.transpose` of a tensor or a buffer, with its body."""
    order = {"permutation": ir.DenseI64ArrayAttr.get(list(permutation))}
    return _linalg("transpose", value, into, order)


def address(buffer: ir.Value) -> ir.Value:
    """The address of a contiguous buffer, as an `i64`."""
    name = "memref.extract_aligned_pointer_as_index"
    return cast("arith.index_cast", create_value(name, ir.IndexType.get(), [buffer]), integer(64))


def fill(value: ir.Value, into: ir.Value) -> ir.Operation:
    """`linalg.fill` of a tensor or a buffer, with its body."""
    return _linalg("fill", value, into, {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])})


def _linalg(
    name: str, value: ir.Value, into: ir.Value, attributes: dict[str, ir.Attribute]
) -> ir.Operation:
    """A named op of one operand and one tensor or buffer that it writes, with its body."""
    result_types = [into.type] if isinstance(into.type, ir.RankedTensorType) else []
    op = create(f"linalg.{name}", result_types, [value, into], attributes, 1)
    linalg_queries.fill_builtin_region(op)
    return op


def embedded(
    value: ir.Value, into: ir.RankedTensorType, dim: int, low: int, content: ir.Value
) -> ir.Value:
    """A tensor of type `into` with `value` from `low` on along `dim`, and `content` around it."""
    around = fill(content, empty(into)).results[0]
    return insert_slice_at(around, value, dim, low)


def insert_slice_at(
    value: ir.Value, inserted: ir.Value, dim: int, start: int | ir.Value
) -> ir.Value:
    """`value` with the slice `inserted` from `start` on along `dim`, an integer or an index."""
    if 0 in inserted.type.shape:
        return value
    dynamic = [] if isinstance(start, int) else [start]
    begin = start if isinstance(start, int) else ir.ShapedType.get_dynamic_size()
    attributes = _slice(inserted.type.shape, dim, begin, [1, 1, len(dynamic), 0, 0])
    operands = [inserted, value, *dynamic]
    return create_value("tensor.insert_slice", value.type, operands, attributes)


def _slice(
    sizes: Sequence[int], dim: int, begin: int, segments: Sequence[int]
) -> dict[str, ir.Attribute]:
    offsets = [begin if each == dim else 0 for each in range(len(sizes))]
    return slice_attributes(sizes, offsets, segments)


def slice_attributes(
    sizes: Sequence[int], offsets: Sequence[int], segments: Sequence[int]
) -> dict[str, ir.Attribute]:
    """The attributes of a slice at constant offsets; `segments` are the numbers of operands."""
    return {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(list(segments)),
        "static_offsets": ir.DenseI64ArrayAttr.get(list(offsets)),
        "static_sizes": ir.DenseI64ArrayAttr.get(list(sizes)),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(sizes)),
    }


def resized(type_: ir.RankedTensorType, shape: Sequence[int]) -> ir.RankedTensorType:
    """The type without encoding, in another shape.

    Raises `ShardError` for a size of 2^63 or more, which MLIR cannot hold; padding may lead to it.
    """
    if any(size >= 1 << 63 for size in shape):
        sizes = "x".join(map(str, shape))
        raise ShardError(f"a tensor of shape {sizes} would be needed: sizes are below 2^63")
    return ir.RankedTensorType.get(list(shape), type_.element_type)


CONSTANTS = {
    "arith.constant": "value",
    "complex.constant": "value",
    "stablehlo.constant": "value",
    "tosa.const": "values",
}
"""The ops that make constants, each with the attribute that holds the value."""


def is_constant(op: ir.Operation) -> bool:
    """Whether `op` makes a constant."""
    return op.name in CONSTANTS


def splat_value(value: ir.Value) -> ir.Attribute | None:
    """The repeated element of the splat constant whose elements `value` has.

    `None` if there is none, and for complex elements, which have no attributes.
    """
    dense = constant_behind(value)
    if dense is None or not is_splat(dense) or isinstance(dense.type.element_type, ir.ComplexType):
        return None
    return dense.get_splat_value()


def constant_like(value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """A constant of `type_` with the repeated element of the splat constant that makes `value`.

    The same op makes it, since `arith` has no constants of unsigned integers.
    """
    value = _source(value)
    name, dense = value.owner.name, constant_value(value)
    assert dense is not None, "it is made by a constant"
    return create_value(name, type_, [], {CONSTANTS[name]: resplat(dense, type_)})


def constant_behind(value: ir.Value) -> ir.Attribute | None:
    """The attribute of the constant whose elements `value` has; else `None`.

    `value` is the constant, a shard of it, or repeats it, as JAX writes `broadcast_in_dim` of an
    init that is a tensor of no dimensions.
    """
    return constant_value(_source(value))


def _source(value: ir.Value) -> ir.Value:
    """The value that has all elements that `value` has."""
    return source_behind(value, *_SAME_ELEMENTS)


_SAME_ELEMENTS = ("mesh.local_split", "stablehlo.broadcast_in_dim")


def is_splat(attribute: ir.Attribute | None) -> bool:
    """Whether the attribute is a tensor with one repeated element."""
    return isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat


def resplat(dense: ir.Attribute, type_: ir.RankedTensorType) -> ir.Attribute:
    """The element that a splat repeats as often as in `type_`."""
    if not isinstance(type_.element_type, ir.ComplexType):
        return ir.DenseElementsAttr.get_splat(type_, dense.get_splat_value())
    text = str(dense).removesuffix(f" : {dense.type}")
    return ir.Attribute.parse(f"{text} : {type_}")


def retype(value: ir.Value, type_: ir.RankedTensorType) -> bool:
    """Give a value another type of tensor; the constant that makes it repeats its element in that.

    Returns whether it did: a constant of different elements stays as it is.
    """
    owner = value.owner
    if not isinstance(owner, ir.Block) and is_constant(owner.operation):
        constant, key = owner.operation, CONSTANTS[owner.operation.name]
        if not is_splat(constant.attributes[key]):
            return False
        constant.attributes[key] = resplat(constant.attributes[key], type_)
    value.set_type(type_)
    return True


def constant_value(value: ir.Value) -> ir.Attribute | None:
    """The attribute of the constant that makes `value`; `None` if no constant does."""
    owner = value.owner
    if isinstance(owner, ir.Block) or not is_constant(owner.operation):
        return None
    return owner.operation.attributes[CONSTANTS[owner.operation.name]]
