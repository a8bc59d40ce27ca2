"""What the loops are written with: indices, elements, parts of tensors, and regions of ops.

Offsets and sizes are numbers or index values; tensors are carried from round to round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import operations

Number: TypeAlias = int | ir.Value
Carried: TypeAlias = list[ir.Value]


def index(number: Number) -> ir.Value:
    return build.index(number) if isinstance(number, int) else number


def bit(value: bool) -> ir.Value:
    return build.scalar(ir.IntegerAttr.get(ir.IntegerType.get_signless(1), int(value))).results[0]


def joined(name: str, a: Number, b: Number) -> ir.Value:
    """The op `arith.name` of two indices, or of two values of another type."""
    operands = [index(a), index(b)]
    return build.create(f"arith.{name}", [operands[0].type], operands).results[0]


def less(a: Number, b: Number) -> ir.Value:
    """Whether an index is less than another one, both signed."""
    return build.compare("slt", index(a), index(b))


def is_inside(place: Number, size: int) -> ir.Value:
    """Whether an index is one of `size` elements."""
    return joined("andi", less(-1, place), less(place, size))


def chosen(condition: ir.Value, yes: Number, no: Number) -> ir.Value:
    operands = [condition, index(yes), index(no)]
    return build.create("arith.select", [operands[1].type], operands).results[0]


def all_of(conditions: Sequence[ir.Value]) -> ir.Value:
    if not conditions:
        return bit(True)
    first, *others = conditions
    for other in others:
        first = joined("andi", first, other)
    return first


def as_index(element: ir.Value) -> ir.Value:
    """The index that an integer is; the largest one for those that are larger."""
    type_ = element.type
    if not type_.is_unsigned:
        return build.create("arith.index_cast", [ir.IndexType.get()], [element]).results[0]
    plain = ir.IntegerType.get_signless(type_.width)
    element = build.create("builtin.unrealized_conversion_cast", [plain], [element]).results[0]
    if type_.width == 64:
        largest = build.scalar(ir.IntegerAttr.get(plain, 2**63 - 1)).results[0]
        element = joined("minui", element, largest)
    return build.create("arith.index_castui", [ir.IndexType.get()], [element]).results[0]


def loop(
    begin: Number,
    end: Number,
    carried: Sequence[ir.Value],
    write: Callable[[ir.Value, Carried], Sequence[ir.Value]],
) -> Carried:
    """`write` gives what the next round is to carry; what comes out is what the last one does."""
    types = [value.type for value in carried]
    operands = [index(begin), index(end), index(1), *carried]
    made = build.create("scf.for", types, operands, regions=1)
    locations = [made.location] * (1 + len(types))
    block = made.regions[0].blocks.append(ir.IndexType.get(), *types, arg_locs=locations)
    with ir.InsertionPoint(block):
        build.create("scf.yield", [], list(write(block.arguments[0], list(block.arguments)[1:])))
    return list(made.results)


def nest(
    sizes: Sequence[int],
    carried: Sequence[ir.Value],
    write: Callable[[list[ir.Value], Carried], Sequence[ir.Value]],
) -> Carried:
    """Loops in each other, the last one innermost, over all places in a tensor of these sizes."""

    def inner(places: list[ir.Value], carried: Sequence[ir.Value]) -> Sequence[ir.Value]:
        if len(places) == len(sizes):
            return write(places, list(carried))
        size = sizes[len(places)]
        return loop(0, size, carried, lambda place, now: inner([*places, place], now))

    return list(inner([], carried))


def only_if(
    condition: ir.Value, carried: Sequence[ir.Value], write: Callable[[], Sequence[ir.Value]]
) -> Carried:
    """What `write` gives where the condition holds, else what was carried."""
    made = build.create("scf.if", [value.type for value in carried], [condition], regions=2)
    then, otherwise = (region.blocks.append() for region in made.regions)
    with ir.InsertionPoint(then):
        build.create("scf.yield", [], list(write()))
    with ir.InsertionPoint(otherwise):
        build.create("scf.yield", [], list(carried))
    return list(made.results)


def element(tensor: ir.Value, places: Sequence[Number]) -> ir.Value:
    type_ = tensor.type.element_type
    return build.create("tensor.extract", [type_], [tensor, *map(index, places)]).results[0]


def with_element(tensor: ir.Value, places: Sequence[Number], value: ir.Value) -> ir.Value:
    operands = [value, tensor, *map(index, places)]
    return build.create("tensor.insert", [tensor.type], operands).results[0]


def part(
    tensor: ir.Value, offsets: Sequence[Number], sizes: Sequence[Number], kept: Sequence[int]
) -> ir.Value:
    """A part of a tensor, of its dimensions those that are `kept`; the others are of size 1."""
    shape = [_static(sizes[dim]) for dim in kept]
    operands, place = _place(offsets, sizes, [1])
    type_ = ir.RankedTensorType.get(shape, tensor.type.element_type)
    return build.create("tensor.extract_slice", [type_], [tensor, *operands], place).results[0]


def with_part(
    tensor: ir.Value, offsets: Sequence[Number], sizes: Sequence[Number], value: ir.Value
) -> ir.Value:
    """The tensor with `value` there, which may lack dimensions of size 1."""
    operands, place = _place(offsets, sizes, [1, 1])
    return build.create(
        "tensor.insert_slice", [tensor.type], [value, tensor, *operands], place
    ).results[0]


def point(tensor: ir.Value, places: Sequence[Number]) -> ir.Value:
    """An element, as a tensor of no dimensions."""
    return part(tensor, places, [1] * len(places), [])


def applied(
    op: ir.Operation, region: int, operands: Sequence[ir.Value], result: int = 0
) -> ir.Value:
    """What a region of `op` on scalars makes of tensors, element by element: the `result`-th."""
    copied = op.clone()
    (block,) = copied.regions[region].blocks
    end = operations(block)[-1]
    value = end.operands[result]
    type_ = ir.RankedTensorType.get(operands[0].type.shape, value.type.element_type)
    dims = {"dimensions": ir.DenseI64ArrayAttr.get(list(range(type_.rank)))}
    made = build.create("stablehlo.map", [type_], operands, dims, regions=1)
    with ir.InsertionPoint(end), end.location:
        build.create("stablehlo.return", [], [value])
    end.erase()
    block.append_to(made.regions[0])
    copied.erase()
    return made.results[0]


def applied_to(
    op: ir.Operation, region: int, operands: Sequence[ir.Value], result: int = 0
) -> ir.Value:
    """The same of one element each; gives an element."""
    return element(applied(op, region, operands, result), [])


def _static(size: Number) -> int:
    return size if isinstance(size, int) else ir.ShapedType.get_dynamic_size()


def _place(
    offsets: Sequence[Number], sizes: Sequence[Number], tensors: Sequence[int]
) -> tuple[list[ir.Value], dict[str, ir.Attribute]]:
    known = [[_static(each) for each in values] for values in (offsets, sizes)]
    given = [[each for each in values if not isinstance(each, int)] for values in (offsets, sizes)]
    segments = [*tensors, *map(len, given), 0]
    return [*given[0], *given[1]], {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments),
        "static_offsets": ir.DenseI64ArrayAttr.get(known[0]),
        "static_sizes": ir.DenseI64ArrayAttr.get(known[1]),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(offsets)),
    }
