"""Replace instances of ops that upstream converts wrongly, or not at all, by other ops.

`compute-elements` replaces ops on tensors of no dimensions by ops on scalars.

    %0 = tensor.from_elements %a : tensor<f32>
    %1 = linalg.map ins(%0, %b : tensor<f32>) (...) { %c = arith.cmpf olt, ... }
    %2 = tensor.extract %1[] : tensor<i1>

becomes `arith.cmpf` of `%a` and the extracted element of `%b`. Otherwise the buffers of `%0` and
`%1` would be allocated in every iteration of the loops around them.

`stablehlo.batch_norm_*` is expanded to the formulas in its specification.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import is_used, replace_op
from shard_dialect.ir.building.loops_and_masks import elementwise
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.walk import body, is_made_by, operations, walk
from shard_dialect.ops.stablehlo.attribute_reading import integer, integers, pad_widths
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, needs
from shard_dialect.passes.lower.boundary import NOT_LOWERED


def add(op: ir.Operation) -> Sequence[ir.Value]:
    """Replace `add` of bits by `or`; upstream converts it to `xor`."""
    if str(op.results[0].type.element_type) != "i1":
        return list(op.results)
    a, b = op.operands
    return [hlo.elementwise("or", a, b)]


def widen_unsigned(op: ir.Operation) -> Sequence[ir.Value]:
    """Convert unsigned operands of a product to the elements of its wider result.

    Upstream extends them as signed integers.
    """
    target = op.results[0].type.element_type
    for number, each in enumerate(op.operands):
        source = each.type.element_type
        if isinstance(source, ir.IntegerType) and source.is_unsigned and source != target:
            op.operands[number] = hlo.convert(each, target)
    return list(op.results)


def dot_general(op: ir.Operation) -> Sequence[ir.Value]:
    """Drop the algorithm, which upstream does not convert; and see `widen_unsigned`.

    It says to which precision operands may be rounded, which we do not, nor does XLA on CPUs.
    """
    if "algorithm" in op.attributes:
        del op.attributes["algorithm"]
    return widen_unsigned(op)


def convolution(op: ir.Operation) -> Sequence[ir.Value]:
    """Read a transposed operand as it is, by other dimension numbers; and see `widen_unsigned`.

    Upstream copies what is transposed, and pads the copy.
    """
    written = str(op.attributes["dimension_numbers"])
    left, right, result = re.findall(r"\[.*?\]", written)
    read = []
    for number, names in enumerate((left, right)):
        each, names = op.operands[number], names.strip("[]").split(", ")
        while is_made_by(each, "stablehlo.transpose"):
            order = integers(each.owner, "permutation")
            names = [names[order.index(dim)] for dim in range(len(order))]
            each = each.owner.operands[0]
        op.operands[number] = each
        read.append(f"[{', '.join(names)}]")
    numbers = f"#stablehlo.conv<{'x'.join(read)}->{result}>"
    op.attributes["dimension_numbers"] = ir.Attribute.parse(numbers)
    return widen_unsigned(op)


def bitcast_convert(op: ir.Operation) -> Sequence[ir.Value]:
    """Drop a bitcast of complex numbers to the type that they have; upstream crashes on it."""
    (source,), (result,) = op.operands, op.results
    if not isinstance(source.type.element_type, ir.ComplexType):
        return [result]
    if source.type != result.type:
        raise error_at(
            op.location,
            f"{source.type} cannot be bitcast to {result.type}: no code "
            "of ours reads one complex number as others",
        )
    return [source]


def convert(op: ir.Operation) -> Sequence[ir.Value]:
    """Convert floats beyond an integer's range to its ends, and NaN to 0, as XLA does.

    What upstream makes is undefined there.
    """
    (value,), (result,) = op.operands, op.results
    source, target = value.type.element_type, result.type.element_type
    is_to_integer = isinstance(source, ir.FloatType) and isinstance(target, ir.IntegerType)
    if not is_to_integer or target.width == 1 or not result.type.has_static_shape:
        return [result]
    if source.width < 32:  # the ends may be beyond its range
        value = hlo.convert(value, ir.F32Type.get())
    low, high = (0, 2**target.width)
    if not target.is_unsigned:
        low, high = -high // 2, high // 2
    lowest = hlo.number(low, result.type)
    ends = [
        ("LE", low, lowest),
        ("GE", high, hlo.elementwise("not", lowest)),
        ("NE", None, hlo.number(0, result.type)),
    ]
    made = hlo.convert(value, target)
    for direction, end, instead in ends:
        bound = value if end is None else hlo.number(end, value.type)
        made = hlo.select(hlo.compare(direction, value, bound), instead, made)
    return [made]


def iota(op: ir.Operation) -> Sequence[ir.Value]:
    """Count narrow floats as 32-bit integers; upstream counts in integers as narrow as they are."""
    type_ = op.results[0].type
    element, dim = type_.element_type, integer(op, "iota_dimension")
    if not isinstance(element, ir.FloatType) or element.width >= 32 or type_.shape[dim] < 128:
        return list(op.results)
    counted, along = hlo.tensor(type_.shape, build.integer(32)), {"iota_dimension": build.i64(dim)}
    return [hlo.convert(hlo.stablehlo_op("iota", counted, [], along), element)]


def without_elements(op: ir.Operation) -> Sequence[ir.Value]:
    """Replace an op without elements by an empty tensor; upstream gives it invalid bounds."""
    is_empty = 0 in op.results[0].type.shape
    return [build.empty(op.results[0].type)] if is_empty else list(op.results)


def pad(op: ir.Operation) -> Sequence[ir.Value]:
    """Pad between elements by an insertion into a tensor that a `linalg.generic` fills.

    Upstream inserts into a `linalg.fill`, and folds an insertion of what is padded with the same
    value: it inserts where the padding ends, as if the strides were 1. Padding of no elements is a
    broadcast, as upstream inserts them, too.
    """
    low, high, between = pad_widths(op)
    value, fill = op.operands
    shape, padded = value.type.shape, op.results[0].type
    if 0 in shape and padded.has_static_shape:
        return [hlo.broadcast(fill, padded.shape, [])]
    if not any(between) or 0 in shape:
        return list(op.results)
    grown = [size + each * (size - 1) for size, each in zip(shape, between, strict=True)]
    element = build.create_value("tensor.extract", value.type.element_type, [fill])
    type_ = build.resized(value.type, grown)
    around = elementwise([], lambda: element, type_)
    attributes = build.slice_attributes(shape, [0] * len(shape), [1, 1, 0, 0, 0])
    attributes["static_strides"] = ir.DenseI64ArrayAttr.get([each + 1 for each in between])
    result = build.create_value("tensor.insert_slice", type_, [value, around], attributes)
    if not any((*low, *high)):
        return [result]
    named = {name: op.attributes[name] for name in op.attributes}
    named["interior_padding"] = ir.DenseI64ArrayAttr.get([0] * len(shape))
    return build.create(op.name, [op.results[0].type], [result, fill], named).results


def insert_slice(op: ir.Operation) -> Sequence[ir.Value]:
    """Insert with strides into what a `linalg.generic` fills, and no `linalg.fill`: see `pad`."""
    into = op.operands[1]
    is_filled = is_made_by(into, "linalg.fill")
    if is_filled and {*op.attributes["static_strides"]} != {1} and into.type.has_static_shape:
        scalar = into.owner.operands[0]
        op.operands[1] = elementwise([], lambda: scalar, into.type)
    return list(op.results)


def materialize(op: ir.Operation) -> Sequence[ir.Value]:
    """Replace the op by an explicit copy: upstream refuses some that must stay."""
    return list(build.copy(*op.operands).results) if len(op.results) else []


def concat(op: ir.Operation) -> Sequence[ir.Value]:
    """Insert the operands into the result, one after the other.

    Upstream looks up each element, by a branch for each operand, which no vector does.
    """
    (result,) = op.results
    types = [each.type for each in (*op.operands, result)]
    if not all(each.has_static_shape for each in types):
        return [result]
    dim = integer(op, "dim" if op.name == "tensor.concat" else "dimension")
    joined, start = build.empty(result.type), 0
    for each in op.operands:
        joined = build.insert_slice_at(joined, each, dim, start)
        start += each.type.shape[dim]
    return [joined]


def reduce(op: ir.Operation) -> Sequence[ir.Value]:
    """Replace a reduction of no elements by the init, and one along no dimension by a map."""
    count = len(op.operands) // 2
    values, starts = list(op.operands)[:count], list(op.operands)[count:]
    is_empty = 0 in values[0].type.shape
    if list(op.attributes["dimensions"]) and not is_empty:
        return list(op.results)
    wide = [hlo.broadcast(s, r.type.shape, []) for s, r in zip(starts, op.results, strict=True)]
    return wide if is_empty else [_mapped(op, [*wide, *values], each) for each in range(count)]


def _mapped(op: ir.Operation, operands: Sequence[ir.Value], number: int) -> ir.Value:
    """One of the values that the op's region computes for each element."""
    copied = op.clone()
    (block,) = copied.regions[0].blocks
    end = operations(block)[-1]
    type_ = op.results[number].type
    mapped = hlo.stablehlo_op(
        "map", type_, operands, {"dimensions": hlo.i64s(range(type_.rank))}, 1
    )
    with ir.InsertionPoint(end), end.location:
        hlo.ends([end.operands[number]])
    end.erase()
    block.append_to(mapped.owner.regions[0])
    copied.erase()
    return mapped


_LOOPS = ("linalg.generic", "linalg.map")
_MAKERS = ("tensor.from_elements", "arith.constant")


@needs(ops=("tensor.extract",), forms=NOT_LOWERED)
def compute_elements(module: ir.Operation) -> Outcome:
    """Replace ops on tensors of no dimensions if only their element is read."""
    changed = False
    # Users first: inlining one op leaves extracts of its operands, whose makers come next.
    for op in reversed(walk(module)):
        if op.name == "tensor.extract" and not len(op.operands) - 1:
            changed |= _read_directly(op)
        elif op.name in _LOOPS and all(map(_is_single, op.operands)) and _is_extracted(op):
            with op.location:
                _inline(op)
            changed = True
    if not changed:
        return UNCHANGED
    for op in walk(module):  # by itself: the loop comes to makers after their users
        if op.name in _MAKERS and _is_single(op.results[0]) and not is_used(op.results[0]):
            op.erase()
    return None


def _is_single(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and value.type.rank == 0


def _is_extracted(op: ir.Operation) -> bool:
    uses = [use.owner.operation.name for result in op.results for use in result.uses]
    return len(op.results) == 1 and bool(uses) and set(uses) == {"tensor.extract"}


def _inline(op: ir.Operation) -> None:
    block = body(op)
    for operand, argument in zip(op.operands, block.arguments, strict=False):
        if is_used(argument):
            with ir.InsertionPoint(op):
                read = build.create("tensor.extract", [argument.type], [operand])
            argument.replace_all_uses_with(read.results[0])
            _read_directly(read)
    (value,) = build.inline_before(op, block)
    for use in list(op.results[0].uses):
        replace_op(use.owner.operation, value)
    op.erase()


def _read_directly(op: ir.Operation) -> bool:
    """Replace an extracted element by the scalar that the tensor was made from, if it was."""
    single = op.operands[0]
    if isinstance(single.owner, ir.Block):
        return False
    producer = single.owner.operation
    constant = build.splat_value(single) if build.is_constant(producer) else None
    if producer.name == "tensor.from_elements":
        value = producer.operands[0]
    elif constant is not None:
        with ir.InsertionPoint(op), op.location:
            value = build.scalar(constant)
    else:
        return False
    replace_op(op, value)
    return True


class _Features:
    """Reductions and broadcasts over the elements of each feature of a tensor."""

    def __init__(self, op: ir.Operation) -> None:
        self.full_type = op.operands[0].type
        self.feature = integer(op, "feature_index")
        self.others = [dim for dim in range(self.full_type.rank) if dim != self.feature]
        self.vector = build.resized(self.full_type, [self.full_type.shape[self.feature]])
        self.epsilon = hlo.number(op.attributes["epsilon"].value, self.full_type)
        self.count = prod(self.full_type.shape[dim] for dim in self.others)

    def wide(self, vector: ir.Value) -> ir.Value:
        """Broadcast each feature's number to all of its elements."""
        return hlo.broadcast(vector, self.full_type.shape, [self.feature])

    def sum(self, value: ir.Value) -> ir.Value:
        """The sum of each feature's elements."""
        if not self.others:
            return value
        zero = hlo.number(0, build.resized(self.full_type, []))
        return hlo.reduce(value, "add", zero, self.others)

    def mean(self, value: ir.Value) -> ir.Value:
        """The mean of each feature's elements."""
        return hlo.elementwise("divide", self.sum(value), hlo.number(self.count, self.vector))

    def deviation(self, variance: ir.Value) -> ir.Value:
        """The square root of the variance plus epsilon, broadcast."""
        shifted = hlo.elementwise("add", self.wide(variance), self.epsilon)
        return hlo.elementwise("sqrt", shifted)


def inference(op: ir.Operation) -> Sequence[ir.Value]:
    """The normalized operand of `stablehlo.batch_norm_inference`."""
    return [_normalized(_Features(op), *op.operands)]


def training(op: ir.Operation) -> Sequence[ir.Value]:
    """The normalized operand, the mean and the variance of `stablehlo.batch_norm_training`."""
    features = _Features(op)
    operand, scale, offset = op.operands
    mean = features.mean(operand)
    centered = hlo.elementwise("subtract", operand, features.wide(mean))
    variance = features.mean(hlo.elementwise("multiply", centered, centered))
    return [_normalized(features, operand, scale, offset, mean, variance), mean, variance]


def _normalized(
    features: _Features,
    operand: ir.Value,
    scale: ir.Value,
    offset: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
) -> ir.Value:
    centered = hlo.elementwise("subtract", operand, features.wide(mean))
    normal = hlo.elementwise("divide", centered, features.deviation(variance))
    scaled = hlo.elementwise("multiply", features.wide(scale), normal)
    return hlo.elementwise("add", scaled, features.wide(offset))


def grad(op: ir.Operation) -> Sequence[ir.Value]:
    """The gradients of the operand, the scale and the offset."""
    features = _Features(op)
    operand, scale, mean, variance, gradient = op.operands
    centered = hlo.elementwise("subtract", operand, features.wide(mean))
    deviation = features.deviation(variance)
    normal = hlo.elementwise("divide", centered, deviation)
    tilted = hlo.elementwise("multiply", gradient, normal)
    even, tilt = (features.wide(features.mean(each)) for each in (gradient, tilted))
    rest = hlo.elementwise("subtract", gradient, even)
    rest = hlo.elementwise("subtract", rest, hlo.elementwise("multiply", tilt, normal))
    factor = hlo.elementwise("divide", features.wide(scale), deviation)
    return [hlo.elementwise("multiply", factor, rest), features.sum(tilted), features.sum(gradient)]
