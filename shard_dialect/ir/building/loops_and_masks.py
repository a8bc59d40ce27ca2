"""Create loops, boxes and masks of tensors, at the insertion point.

Loops are `scf.for` and `linalg.generic`; a box of a tensor has an offset in each dimension; masks
replace some elements of a tensor, by their index:

    %r = linalg.generic ... ins(%x : tensor<4x2xf32>) {
      %i = linalg.index 1
      %is_held = arith.cmpi slt, %i, %count
      %e = arith.select %is_held, %in, %zero
      linalg.yield %e
    }

keeps the first `%count` elements along dimension 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import (
    arith,
    compare,
    create_value,
    index,
    resized,
    select,
    slice_attributes,
    to_index,
)


def counted(
    bounds: Sequence[int | ir.Value], inits: Sequence[ir.Value] = ()
) -> tuple[ir.Operation, ir.Block]:
    """`scf.for` with `bounds` (begin, end and step), and its block, which has no terminator yet."""
    types = [value.type for value in inits]
    bound_values = [build.index(each) if isinstance(each, int) else each for each in bounds]
    loop = build.create("scf.for", types, [*bound_values, *inits], regions=1)
    locations = [loop.location] * (1 + len(types))
    return loop, loop.regions[0].blocks.append(ir.IndexType.get(), *types, arg_locs=locations)


def elementwise(
    values: Sequence[ir.Value],
    compute: Callable[..., ir.Value],
    type_: ir.RankedTensorType | None = None,
) -> ir.Value:
    """The result of a `linalg.generic` that applies `compute` to the elements of each tensor.

    The tensors have one type. `type_` is the type of the result, if it differs.
    """
    type_, count = type_ or values[0].type, len(values)
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))
    into = build.empty(type_)
    maps, kinds = [identity] * (count + 1), ["parallel"] * type_.rank
    op = generic(values, into, maps, kinds, lambda *elements: compute(*elements[:count]))
    return op.results[0]


def generic(
    inputs: Sequence[ir.Value],
    into: ir.Value,
    maps: Sequence[ir.Attribute],
    kinds: Sequence[str],
    compute: Callable[..., ir.Value],
) -> ir.Operation:
    """`linalg.generic` on tensors or buffers.

    `compute` gets an element of each input and then one of `into`, and returns the new element.
    """
    attributes = {
        "indexing_maps": ir.ArrayAttr.get(list(maps)),
        "iterator_types": ir.ArrayAttr.get(
            [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
        ),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), 1]),
    }
    types = [into.type] if isinstance(into.type, ir.RankedTensorType) else []
    op = build.create("linalg.generic", types, [*inputs, into], attributes, regions=1)
    elements = [each.type.element_type for each in (*inputs, into)]
    block = op.regions[0].blocks.append(*elements, arg_locs=[op.location] * len(elements))
    with ir.InsertionPoint(block):
        build.create("linalg.yield", [], [compute(*block.arguments)])
    return op


Offsets = Sequence[int | ir.Value]
"""Where a box begins in each dimension: an integer or an index."""


def extract_box(value: ir.Value, offsets: Offsets, shape: Sequence[int]) -> ir.Value:
    """The box of `value` of this shape that begins at `offsets`."""
    if tuple(value.type.shape) == tuple(shape):
        return value
    static, dynamic = _split(offsets)
    attributes = slice_attributes(shape, static, [1, len(dynamic), 0, 0])
    type_ = resized(value.type, shape)
    return create_value("tensor.extract_slice", type_, [value, *dynamic], attributes)


def insert_box(value: ir.Value, box: ir.Value, offsets: Offsets) -> ir.Value:
    """`value` with `box` from `offsets` on."""
    if list(value.type.shape) == list(box.type.shape):
        return box
    static, dynamic = _split(offsets)
    attributes = slice_attributes(box.type.shape, static, [1, 1, len(dynamic), 0, 0])
    return create_value("tensor.insert_slice", value.type, [box, value, *dynamic], attributes)


def _split(offsets: Offsets) -> tuple[list[int], list[ir.Value]]:
    """The offsets with a mark in place of those that only the program knows; and these."""
    unknown = ir.ShapedType.get_dynamic_size()
    static = [each if isinstance(each, int) else unknown for each in offsets]
    return static, [each for each in offsets if not isinstance(each, int)]


def keep_first(value: ir.Value, counts: Mapping[int, ir.Value], other: ir.Value) -> ir.Value:
    """`value` where the index along each dimension is less than its count, `other` elsewhere."""
    return elementwise([value], lambda kept: select(is_within(counts), kept, other))


def keep_within(
    value: ir.Value, firsts: Mapping[int, ir.Value], counts: Mapping[int, ir.Value], other: ir.Value
) -> ir.Value:
    """As `keep_first`, but also `other` where an index is less than the first along a dimension."""

    def kept(element: ir.Value) -> ir.Value:
        reached = [compare("sge", index_of(dim), first) for dim, first in firsts.items()]
        return select(_all([*reached, is_within(counts)]), element, other)

    return elementwise([value], kept)


def keep_box(value: ir.Value, others: ir.Value, counts: Mapping[int, ir.Value]) -> ir.Value:
    """As `keep_first`, but elements of the tensor `others` elsewhere."""
    return elementwise([value, others], lambda kept, it: select(is_within(counts), kept, it))


def switch_at(before: ir.Value, after: ir.Value, dim: int, at: ir.Value) -> ir.Value:
    """`before` at indices less than `at` along `dim`, `after` from there on."""
    return keep_box(before, after, {dim: at})


def is_within(counts: Mapping[int, ir.Value]) -> ir.Value:
    """In the body of a linalg op: whether the index of each loop is less than its count."""
    return _all([_is_less(loop, count) for loop, count in counts.items()])


def as_index(value: ir.Value) -> ir.Value:
    """The element of a tensor of one integer, as an index."""
    number = create_value("tensor.extract", value.type.element_type, [value, index(0)])
    return to_index(number)


def index_of(loop: int) -> ir.Value:
    """In the body of a linalg op: the index of a loop."""
    return create_value("linalg.index", ir.IndexType.get(), [], {"dim": build.i64(loop)})


def _is_less(loop: int, count: ir.Value) -> ir.Value:
    return compare("slt", index_of(loop), count)


def _all(conditions: Sequence[ir.Value]) -> ir.Value:
    return reduce(lambda a, b: arith("andi", a, b), conditions)
