"""What each op says of sizes: which are equal, and which are products of others.

An op that is not here keeps its sizes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import gcd, prod
from operator import mul

import numpy as np

from shard_dialect.proof.collectives import axis_lists
from shard_dialect.proof.elementwise import ELEMENTWISE
from shard_dialect.proof.factors import Factors, Term
from shard_dialect.proof.family import CONSTANTS, Attribute, Dims, Family, Size, is_splat, relates
from shard_dialect.proof.machine import TERMINATORS
from shard_dialect.proof.reading import Op, Type
from shard_dialect.proof.structured_stablehlo import combiner, listed, structured
from shard_dialect.proof.tensors import DYNAMIC


@relates(
    *ELEMENTWISE, "stablehlo.reverse", "tensor.cast",
    "sdy.sharding_constraint", "sdy.reshard", "sdy.propagation_barrier", "mesh.annotate",
    "mesh.reshard", "mesh.propagation_barrier", "shard.shard",
    "stablehlo.sort", "stablehlo.map",
)  # fmt: skip
def _elementwise(family: Family, op: Op) -> None:
    """Tensors of one shape; scalars stand for tensors of it."""
    family.integers(op)
    many = [dims for dims in (*family.operands(op), *family.results(op)) if dims]
    for dims in many:
        if len(dims) != len(many[-1]):
            family.keep(op)
            return
        for a, b in zip(dims, many[-1], strict=True):
            if family.factors.value(a) == family.factors.value(b):
                family.factors.equate(a, b)


@relates("linalg.generic")
def _loops(family: Family, op: Op) -> None:
    """An op of linalg: each loop has a size; what reads several loops at once keeps them."""
    family.integers(op)
    sizes: dict[int, Term] = {}
    for dims, map_ in zip(family.operands(op), op.maps, strict=False):
        for dim, expression in zip(dims, map_.results, strict=True):
            if expression[0] == "d":
                family.factors.equate(sizes.setdefault(expression[1], dim), dim)
    plain = {("d", loop) for loop in sizes}
    for dims, map_ in zip(family.operands(op), op.maps, strict=False):
        if any(each not in plain for each in map_.results):
            family.factors.pin(*dims, *sizes.values())
    for number, dims in enumerate(family.results(op)):
        family.same(dims, family.operands(op)[len(op.operands) - len(op.types) + number])
    kept = {each for map_ in op.maps[len(op.maps) - len(op.types) :] for each in map_.results}
    along = [size for loop, size in sizes.items() if ("d", loop) not in kept]
    if along:
        _relate_sum(family, op, 0, _is_sum_of_inputs(op), along)
    _relate_positions(family, op, list(sizes.values()))


def _is_sum_of_inputs(op: Op) -> bool:
    """Whether it adds up its one input, or the products of its two."""
    names = sorted(inner.name for inner in op.body.ops if inner.name not in _CASTS)
    inputs = len(op.operands) - len(op.types)
    return names == ["arith.addf", *["arith.mulf"] * (inputs - 1), "linalg.yield"] and inputs < 3


_CASTS = ("arith.extf", "arith.truncf")


def _relate_positions(family: Family, op: Op, sizes: Sequence[Term]) -> None:
    """Where the body asks for its place, integers count; what it reads of tensors keeps sizes."""
    for inner in op.body.ops:
        if inner.name == "linalg.index":
            family.count(inner.results[0], *sizes)
        elif any(type_.shape for type_ in inner.operand_types):
            family.factors.pin(*sizes)


@relates("linalg.index", "linalg.yield")
def _index(family: Family, op: Op) -> None:
    """Its loop is noted with the op around it."""


@relates("tensor.empty", "bufferization.alloc_tensor", "shard.sharding")
def _made(family: Family, op: Op) -> None:
    """A tensor of any shape; of sizes that operands give, it stays."""
    family.results(op)
    if op.operands:
        family.keep(op)


@relates(*CONSTANTS)
def _constant(family: Family, op: Op) -> None:
    """Of one number it has any shape."""
    (dims,) = family.results(op)
    given = op.attributes["value"]
    is_integer = op.type.is_integer and not op.type.is_bit
    if is_integer:
        family.constants.append(((family.function, op.results[0]), op))
    elif isinstance(given, str) or (isinstance(given, np.ndarray) and not is_splat(given)):
        family.factors.pin(*dims)


@relates("stablehlo.broadcast_in_dim")
def _broadcast(family: Family, op: Op) -> None:
    family.integers(op)
    (given,), (made,) = family.operands(op), family.results(op)
    shape = op.operand_types[0].shape
    for dim, to in enumerate(op.attributes["broadcast_dimensions"]):
        if shape[dim] != 1 or op.type.shape[to] == 1:
            family.factors.equate(given[dim], made[to])


@relates("stablehlo.reshape", "tensor.collapse_shape", "tensor.expand_shape")
def _reshape(family: Family, op: Op) -> None:
    family.integers(op)
    family.factors.refine(family.operands(op)[0], family.results(op)[0])


@relates("stablehlo.transpose")
def _transpose(family: Family, op: Op) -> None:
    family.integers(op)
    (given,), (made,) = family.operands(op), family.results(op)
    family.same(tuple(given[dim] for dim in op.attributes["permutation"]), made)


@relates("stablehlo.iota")
def _iota(family: Family, op: Op) -> None:
    dim = family.results(op)[0][op.attributes["iota_dimension"]]
    family.count(op.results[0], dim)


@relates("stablehlo.slice")
def _slice(family: Family, op: Op) -> None:
    family.integers(op)
    (given,), (made,) = family.operands(op), family.results(op)
    names = ("start_indices", "limit_indices", "strides")
    starts: list[tuple[int, Term]] = []
    limits: list[tuple[int, Term]] = []
    for dim, (low, high, step) in enumerate(zip(*(op.attributes[n] for n in names), strict=True)):
        unit = given[dim]
        if (low, high, step) == (0, family.factors.value(unit), 1):
            family.factors.equate(given[dim], made[dim])
        elif step == 1 and _is_margin(family, given[dim], made[dim], low, high):
            starts.append((low, ()))
            limits.append((high, unit))
            continue
        else:
            unit = _in_units(family, (given[dim], made[dim]), low, high, *([1] if step > 1 else []))
        starts.append((low, unit))
        limits.append((high, unit))
    family.change_numbers(op, names[0], starts)
    family.change_numbers(op, names[1], limits)


def _is_margin(family: Family, larger: Term, smaller: Term, *ends: int) -> bool:
    """Let one size be another and a few more, if it is; rather than both so many large units."""
    own = [family.factors.value(size) for size in (larger, smaller)]
    margin, unit = own[0] - own[1], gcd(*own, *ends)
    is_margin = 2 * margin < own[1] and (unit < 2 or margin + 2 < own[0] // unit * 2)
    if is_margin:
        family.factors.add(larger, smaller, margin)
    return is_margin


def _in_units(family: Family, sizes: Sequence[Term], *numbers: int) -> Term:
    """Let sizes and numbers be multiples of one unknown, the same multiples that they are."""
    own = [family.factors.value(size) for size in sizes]
    unit = gcd(*numbers, *own)
    if unit < 2:
        family.factors.pin(*sizes)
        return ()
    term = family.factors.new(unit)
    for size, value in zip(sizes, own, strict=True):
        family.factors.equate(size, family.factors.constant(value // unit) + term)
    return term


@relates("tensor.extract_slice")
def _extract_slice(family: Family, op: Op) -> None:
    _relate_box(family, op, family.operands(op)[0], family.results(op)[0])


@relates("tensor.insert_slice")
def _insert_slice(family: Family, op: Op) -> None:
    (part, whole, *_), (made,) = family.operands(op), family.results(op)
    family.same(whole, made)
    _relate_box(family, op, whole, part)


def _relate_box(family: Family, op: Op, whole: Dims, part: Dims) -> None:
    """A part that has as many dimensions; those in which it begins at a computed place stay."""
    boxes = [op.attributes[f"static_{name}"] for name in ("offsets", "sizes", "strides")]
    if DYNAMIC in chain(*boxes[1:]) or len(whole) != len(part):
        family.keep(op)
        return
    family.integers(op)
    starts: list[tuple[int, Term]] = []
    for all_of, some, (at, size, step) in zip(whole, part, zip(*boxes, strict=True), strict=True):
        unit = some
        if at == DYNAMIC:
            family.kept.append(op)
            family.factors.pin(all_of, some)
            unit = ()
        elif (at, size, step) == (0, family.factors.value(all_of), 1):
            family.factors.equate(all_of, some)
        else:
            unit = _in_units(family, (all_of, some), at, *([1] if step > 1 else []))
        starts.append((at, unit))
    family.change_numbers(op, "static_offsets", starts)
    sizes = [(family.factors.value(dim), dim) for dim in part]
    family.change_numbers(op, "static_sizes", sizes)


@relates("stablehlo.concatenate", "tensor.concat")
def _concatenate(family: Family, op: Op) -> None:
    family.integers(op)
    (made,), along = family.results(op), op.attributes.get("dimension", op.attributes.get("dim"))
    for dims in family.operands(op):
        for dim, (a, b) in enumerate(zip(dims, made, strict=True)):
            if dim != along:
                family.factors.equate(a, b)
    _in_units(family, [dims[along] for dims in (*family.operands(op), made)])


@relates("stablehlo.pad")
def _pad(family: Family, op: Op) -> None:
    family.integers(op)
    given, made = family.operands(op)[0], family.results(op)[0]
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    lows: list[tuple[int, Term]] = []
    highs: list[tuple[int, Term]] = []
    for dim, (low, high, gap) in enumerate(zip(*(op.attributes[n] for n in names), strict=True)):
        unit: Term = ()
        if (low, high, gap) == (0, 0, 0):
            family.factors.equate(given[dim], made[dim])
        elif gap == 0 and min(low, high) >= 0 and _is_margin(family, made[dim], given[dim], low):
            pass
        elif not given[dim] and low == high > 0:  # one element in the middle
            unit = family.factors.new(low)
            family.factors.add(made[dim], family.factors.constant(2) + unit, 1)
        else:
            unit = _in_units(family, (given[dim], made[dim]), low, high, *([1] if gap else []))
        lows.append((low, unit))
        highs.append((high, unit))
    family.change_numbers(op, names[0], lows)
    family.change_numbers(op, names[1], highs)


@relates("stablehlo.reduce")
def _reduce(family: Family, op: Op) -> None:
    family.integers(op)
    dims = op.attributes["dimensions"]
    for given, made in zip(family.operands(op), family.results(op), strict=False):
        family.same(tuple(each for dim, each in enumerate(given) if dim not in dims), made)
        family.same(family.operands(op)[0], given)
    along = [family.operands(op)[0][dim] for dim in dims]
    _relate_sum(family, op, 0, len(op.types) == 1 and combiner(op.body) == "add", along)


_CHOOSING = frozenset(
    f"{dialect}.{name}"
    for dialect, names in (
        ("stablehlo", "maximum minimum and or compare select convert"),
        ("arith", "maximumf minimumf maxnumf minnumf maxsi minsi maxui minui andi ori cmpf cmpi"),
        ("arith", "select extf truncf"),
    )
    for name in names.split()
)
"""What the body of a reduction holds to which an element that comes twice does not matter."""


def _relate_sum(family: Family, op: Op, operand: int, is_sum: bool, along: Sequence[Term]) -> None:
    """A sum of floats along sizes, or a choice; along other reductions sizes stay."""
    if is_sum and op.operand_types[operand].is_float:
        family.sums(op, operand, *along)
    elif not {inner.name for inner in op.body.ops} - TERMINATORS <= _CHOOSING:
        family.factors.pin(*along)


@relates("stablehlo.dot_general")
def _dot(family: Family, op: Op) -> None:
    family.integers(op)
    left, right = family.operands(op)
    dims = structured(op, "dot_dimension_numbers", "DotDimensionNumbers")
    batches = list(dims.lhs_batching_dimensions), list(dims.rhs_batching_dimensions)
    sums = list(dims.lhs_contracting_dimensions), list(dims.rhs_contracting_dimensions)
    for a, b in (*zip(*batches, strict=True), *zip(*sums, strict=True)):
        family.factors.equate(left[a], right[b])
    used = [*zip(batches, sums, strict=True)]
    free = [
        each
        for side, (batch, summed) in zip((left, right), used, strict=True)
        for dim, each in enumerate(side)
        if dim not in batch and dim not in summed
    ]
    family.same((*(left[dim] for dim in batches[0]), *free), family.results(op)[0])
    _relate_products(family, op, [left[dim] for dim in sums[0]])


def _relate_products(family: Family, op: Op, along: Sequence[Term]) -> None:
    """Sums of products of floats along sizes; those of integers stay."""
    if op.type.is_float:
        family.sums(op, 0, *along)
    else:
        family.factors.pin(*along)


@relates("stablehlo.convolution")
def _convolution(family: Family, op: Op) -> None:
    """Batch and features have any size, where they are not in groups."""
    (image, kernel), (made,) = family.operands(op), family.results(op)
    dims = structured(op, "dimension_numbers", "ConvDimensionNumbers")
    batch = image[dims.input_batch_dimension], made[dims.output_batch_dimension]
    inward = image[dims.input_feature_dimension], kernel[dims.kernel_input_feature_dimension]
    outward = kernel[dims.kernel_output_feature_dimension], made[dims.output_feature_dimension]
    in_groups = op.attributes["feature_group_count"], op.attributes["batch_group_count"]
    if in_groups == (1, 1):
        for pair in (batch, inward, outward):
            family.factors.equate(*pair)
    else:
        family.factors.pin(*batch, *inward, *outward)
    along = [
        _relate_window(family, *each)
        for each in zip(
            [image[dim] for dim in dims.input_spatial_dimensions],
            [kernel[dim] for dim in dims.kernel_spatial_dimensions],
            [made[dim] for dim in dims.output_spatial_dimensions],
            _shapes(op, "lhs_dilation", "rhs_dilation", len(dims.input_spatial_dimensions)),
            strict=True,
        )
    ]
    _relate_products(family, op, [inward[0], *along])


@dataclass(frozen=True, slots=True)
class _Windows:
    """How windows move along a dimension."""

    stride: int
    gaps: int
    """How far elements are from each other, in the image."""
    dilation: int
    """And in a window."""
    ends: int
    """How many elements are before the image and behind it."""


def _shapes(op: Op, gaps: str, dilation: str, count: int) -> list[_Windows]:
    ones = [1] * count
    ends = np.asarray(listed(op, "padding", [0] * 2 * count)).reshape(-1, 2).sum(1).tolist()
    named = (listed(op, name, ones) for name in ("window_strides", gaps, dilation))
    return [_Windows(*each) for each in zip(*named, ends, strict=True)]


def _relate_window(family: Family, given: Term, window: Term, made: Term, w: _Windows) -> Term:
    """Windows of one size may be any number; and so may the elements of large windows.

    What a window holds that is larger than the result, as where a kernel's gradient is made, is
    one of any number of elements. Gives the sizes, as a product, that the windows add up.
    """
    f = family.factors
    image, inside, places = (f.value(each) for each in (given, window, made))
    if w == _Windows(1, 1, 1, 0) and places == inside > 1 and image == 2 * inside - 1:
        # What is in the middle of an image comes everywhere: the transpose of one large window.
        less = f.new(inside - 1)
        f.add(window, less, 1)
        f.add(given, f.constant(2) + less, 1)
        f.equate(window, made)
        return window
    if inside <= places:
        f.pin(window)
        if w.stride == 1:
            _equate_sum(f, made, f.constant(w.gaps) + given)
        elif w.gaps == 1:
            _equate_sum(f, given, f.constant(w.stride) + made)
        else:
            f.pin(given, made)
        f.hold_least(given, w.dilation * (inside - 1) // w.gaps + 1)
        return ()
    f.pin(made)
    if w.gaps == 1:
        _equate_sum(f, given, f.constant(w.dilation) + window)
    else:
        f.pin(given, window)
    f.hold_least(given, w.stride * (places - 1) + 1)
    return window


def _equate_sum(f: Factors, left: Term, right: Term) -> None:
    """Let two products be equal, or as far from each other as they are."""
    more = f.value(left) - f.value(right)
    if more:
        f.add(left, right, more)
    else:
        f.equate(left, right)


@relates("stablehlo.reduce_window")
def _reduce_window(family: Family, op: Op) -> None:
    family.integers(op)
    given, made = family.operands(op), family.results(op)
    for a, b in zip(given, made, strict=False):
        family.same(given[0], a)
        family.same(made[0], b)
    along = _relate_windows(family, op, given[0], made[0])
    _relate_sum(family, op, 0, len(op.types) == 1 and combiner(op.body) == "add", along)


@relates("stablehlo.select_and_scatter")
def _select_and_scatter(family: Family, op: Op) -> None:
    (given, source, _), (made,) = family.operands(op), family.results(op)
    family.same(given, made)
    _relate_windows(family, op, given, source)


def _relate_windows(family: Family, op: Op, given: Dims, made: Dims) -> list[Term]:
    """The same for windows that an attribute has."""
    sizes = listed(op, "window_dimensions", [1] * len(given))
    windows = [family.factors.new(size) for size in sizes]
    shapes = _shapes(op, "base_dilations", "window_dilations", len(given))
    family.change_numbers(op, "window_dimensions", list(zip(sizes, windows, strict=True)))
    return [
        _relate_window(family, *each) for each in zip(given, windows, made, shapes, strict=True)
    ]


@relates("stablehlo.gather")
def _gather(family: Family, op: Op) -> None:
    family.integers(op)
    (operand, indices), (made,) = family.operands(op), family.results(op)
    dims = structured(op, "dimension_numbers", "GatherDimensionNumbers")
    _relate_batch(family, indices, made, dims.index_vector_dim, dims.offset_dims)
    batching = dict(zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True))
    offsets = iter(dims.offset_dims)
    sizes: list[tuple[int, Term]] = []
    for dim, size in enumerate(op.attributes["slice_sizes"]):
        unit: Term = ()
        if dim in batching:
            family.factors.equate(operand[dim], indices[batching[dim]])
        elif dim in dims.collapsed_slice_dims:
            family.count(op.operands[1], operand[dim])
        else:
            unit = _relate_slice(family, op.operands[1], operand[dim], made[next(offsets)])
        sizes.append((size, unit))
    family.change_numbers(op, "slice_sizes", sizes)


def _relate_batch(
    family: Family, indices: Dims, other: Dims, vector: int, windows: Sequence[int]
) -> None:
    """The dimensions of indices are those of what they pick, but for the windows."""
    here = [each for dim, each in enumerate(indices) if dim != vector]
    there = [each for dim, each in enumerate(other) if dim not in list(windows)]
    family.same(tuple(here), tuple(there))
    family.factors.pin(*(each for dim, each in enumerate(indices) if dim == vector))


def _relate_slice(family: Family, index: int, whole: Term, part: Term) -> Term:
    """A part that begins at an index; gives the unit in which the part is measured."""
    own, size = family.factors.value(whole), family.factors.value(part)
    if own == size:
        family.factors.equate(whole, part)
    elif size and own % size == 0:
        family.count(index, whole, part)
        if part:
            family.factors.equate(whole, family.factors.constant(own // size) + part)
    else:
        family.count(index, whole)
        family.factors.pin(whole, part)
    return part


@relates("stablehlo.scatter")
def _scatter(family: Family, op: Op) -> None:
    family.integers(op)
    count = (len(op.operands) - 1) // 2
    given = family.operands(op)
    dims = structured(op, "scatter_dimension_numbers", "ScatterDimensionNumbers")
    batching = dict(zip(dims.input_batching_dims, dims.scatter_indices_batching_dims, strict=True))
    index, indices = op.operands[count], given[count]
    for operand, updates, made in zip(
        given[:count], given[count + 1 :], family.results(op), strict=True
    ):
        family.same(operand, made)
        _relate_batch(family, indices, updates, dims.index_vector_dim, dims.update_window_dims)
        outer = [dim for dim in range(len(indices)) if dim != dims.index_vector_dim]
        windowed = list(dims.update_window_dims)
        own = [each for dim, each in enumerate(updates) if dim not in windowed]
        here = [each for dim, each in zip(outer, own, strict=True) if dim not in batching.values()]
        if combiner(op.body) == "add":
            _relate_sum(family, op, count + 1, count == 1, here)
        windows = iter(dims.update_window_dims)
        for dim, size in enumerate(operand):
            if dim in batching:
                family.factors.equate(size, indices[batching[dim]])
            elif dim in dims.inserted_window_dims:
                family.count(index, size)
            else:
                _relate_slice(family, index, size, updates[next(windows)])


@relates("stablehlo.dynamic_slice")
def _dynamic_slice(family: Family, op: Op) -> None:
    family.integers(op)
    whole, (part,) = family.operands(op)[0], family.results(op)
    for index, a, b in zip(op.operands[1:], whole, part, strict=True):
        _relate_slice(family, index, a, b)
    sizes = [(family.factors.value(dim), dim) for dim in part]
    family.change_numbers(op, "slice_sizes", sizes)


@relates("stablehlo.dynamic_update_slice")
def _dynamic_update_slice(family: Family, op: Op) -> None:
    family.integers(op)
    (whole, part, *_), (made,) = family.operands(op), family.results(op)
    family.same(whole, made)
    for index, a, b in zip(op.operands[2:], whole, part, strict=True):
        _relate_slice(family, index, a, b)


@relates("stablehlo.while")
def _while(family: Family, op: Op) -> None:
    for region in op.regions:
        _relate(family, op.operands, region.arguments, op.operand_types)
    _relate(family, op.operands, op.regions[1].ops[-1].operands, op.operand_types)
    _relate(family, op.operands, op.results, op.operand_types)


@relates("scf.for")
def _for(family: Family, op: Op) -> None:
    counter, *arguments = op.body.arguments
    family.together(*op.operands[:3], counter)
    for numbers in (arguments, op.body.ops[-1].operands, op.results):
        _relate(family, op.operands[3:], numbers, op.types)


@relates("stablehlo.if", "stablehlo.case", "scf.if", "scf.execute_region", "scf.index_switch")
def _branches(family: Family, op: Op) -> None:
    for region in op.regions:
        if region.ops:
            _relate(family, op.results, region.ops[-1].operands, op.types)


@relates("func.call", "stablehlo.composite")
def _call(family: Family, op: Op) -> None:
    name = op.attributes.get("callee", op.attributes.get("decomposition"))
    callee = family.program.functions.get(name)
    if callee is None:
        family.keep(op)
        return
    _relate(family, op.operands, callee.body.arguments, op.operand_types, name)
    _relate(family, op.results, callee.body.ops[-1].operands, op.types, name)


@relates("stablehlo.optimization_barrier", "mesh.done")
def _barrier(family: Family, op: Op) -> None:
    _relate(family, op.operands, op.results, op.types)


def _relate(
    family: Family,
    left: Sequence[int],
    right: Sequence[int],
    types: Sequence[Type],
    function: str | None = None,
) -> None:
    """Values are passed on, to another function if one is named."""
    here, there = family.function, function or family.function
    for a, b, type_ in zip(left, right, types, strict=True):
        family.same(family.of(here, a, type_), family.of(there, b, type_))
        if type_.is_integer and not type_.is_bit:
            family.join((here, a), (there, b))


@relates("mesh.mask")
def _mask(family: Family, op: Op) -> None:
    _elementwise(family, op)
    family.factors.hold_positions(*family.grid_axes(op), least=2)  # the first, and the others


@relates("shard.all_reduce")
def _all_reduce(family: Family, op: Op) -> None:
    _elementwise(family, op)
    _relate_reduction(family, op)


def _relate_reduction(family: Family, op: Op) -> None:
    """What members of a group have is added up, or chosen from; else the group is what it is."""
    kind = re.findall(r"\w+", str(op.attributes.get("reduction", "sum")))[-1]
    if kind == "sum" and op.type.is_float:
        family.sums(op, 0, *family.grid_axes(op))
    elif kind not in ("max", "min", "bitwise_and", "bitwise_or", "average"):
        family.factors.pin(*family.grid_axes(op))


_JOINED = {"shard.all_gather": "gather_axis", "shard.all_to_all": "concat_axis"}
"""Collectives of which a dimension of the result holds that of all members."""
_SPLIT = {
    "shard.all_slice": ("slice_axis",),
    "shard.reduce_scatter": ("scatter_dim", "scatter_axis"),
    "shard.all_to_all": ("split_axis",),
}
"""Collectives of which a dimension of the result is a part."""


@relates(*_JOINED, *_SPLIT)
def _exchange(family: Family, op: Op) -> None:
    family.integers(op)
    (given,), (made,) = family.operands(op), family.results(op)
    members = sum(family.grid_axes(op), ())
    more, less = list(given), list(made)
    if op.name in _JOINED:
        dim = op.attributes[_JOINED[op.name]]
        more[dim] = more[dim] + members
    if op.name in _SPLIT:
        dim = next(op.attributes[key] for key in _SPLIT[op.name] if key in op.attributes)
        less[dim] = less[dim] + members
    family.same(tuple(more), tuple(less))
    if op.name == "shard.reduce_scatter":
        _relate_reduction(family, op)


@relates("mesh.collective_permute")
def _permute(family: Family, op: Op) -> None:
    """A permutation of members of one kind is one of any number of members of this kind."""
    permutation = op.attributes.get("permutation", ())
    axes = family.grid_axes(op)
    if (away := _shift_of(permutation)) is not None:
        members = sum(axes, ())
        family.factors.hold_positions(members)
        ends = min(permutation)
        family.change(op, "permutation", lambda size: _shifted(size(members), away, ends))
    elif (digits := _digits(permutation)) is not None:
        family.change(op, "permutation", _reordered(family, axes, digits))
    else:
        family.kept.append(op)
        family.factors.pin(*axes)
    _elementwise(family, op)


def _shift_of(permutation: Sequence[int]) -> int | None:
    """Whether each member sends to the next, or to the one before: 1, or -1."""
    count = len(permutation)
    for away in (1, -1):
        for end in (0, -1):
            if count > 2 and list(permutation) == list(_shifted(count, away, end)):
                return away
    return None


def _shifted(count: int, away: int, end: int) -> tuple[int, ...]:
    """Each of `count` members to its neighbour; beyond the end to the other one, or to none: -1."""
    to = [member + away for member in range(count)]
    return tuple(each if 0 <= each < count else each % count if not end else -1 for each in to)


def _reordered(
    family: Family, axes: Sequence[Term], digits: Sequence[tuple[int, int]]
) -> Attribute:
    """The permutation that reorders digits of the members' numbers, which have any size.

    Its digits are those of the axes before it, or after it, or both; else each is a part of both.
    """
    terms = [family.factors.new(count) for count, _ in digits]
    order = sorted(range(len(digits)), key=lambda at: -digits[at][1])
    both = [terms, [terms[at] for at in order]]
    ends = _ends(family, axes)
    aligned = [each for each in both if _ends(family, each) <= ends]
    for each in aligned or both:
        family.factors.refine(axes, each)

    def permutation(size: Size) -> tuple[int, ...]:
        sizes = [size(term) for term in terms]
        numbers = np.arange(prod(sizes)).reshape([sizes[at] for at in order])
        return tuple(numbers.transpose(np.argsort(order)).reshape(-1).tolist())

    return permutation


def _ends(family: Family, digits: Sequence[Term]) -> set[int]:
    """Of how many members the groups are that have the same major digits."""
    return set(accumulate(map(family.factors.value, digits), mul))


def _digits(permutation: Sequence[int]) -> list[tuple[int, int]] | None:
    """The sizes and strides of digits that a permutation reorders, the major ones first.

    `[0, 2, 1, 3]` is `[(2, 1), (2, 2)]`: number `2 * a + b` goes to `a + 2 * b`.
    """
    left = np.array(permutation, np.int64)
    found: list[tuple[int, int]] = []
    while len(left) > 1:
        stride = int(left[1] - left[0])
        run = 1 + int(np.argmin(np.append(np.diff(left) == stride, False)))
        count = next(n for n in range(run, 0, -1) if len(left) % n == 0)
        rows = left.reshape(-1, count)
        if count == 1 or stride < 1 or np.any(rows != rows[:, :1] + np.arange(count) * stride):
            return None
        found.append((count, stride))
        left = rows[:, 0]
    strides = sorted(found, key=lambda digit: digit[1])
    expected = 1
    for count, stride in strides:
        if stride != expected:
            return None
        expected *= count
    return found[::-1] if len(left) and left[0] == 0 else None


@relates("shard.shift")
def _shift(family: Family, op: Op) -> None:
    """To a neighbour, of any number of them."""
    _elementwise(family, op)
    axis = family.axes[op.attributes["grid"]][op.attributes["shift_axis"]]
    if abs(op.attributes["offset"]) == 1:
        family.factors.hold_positions(axis)
    else:
        family.factors.pin(axis)


@relates("shard.update_halo")
def _update_halo(family: Family, op: Op) -> None:
    """Dimensions that have halos keep their sizes, and so do the axes that split them."""
    _elementwise(family, op)
    axes = family.axes[op.attributes["grid"]]
    split = axis_lists(op.attributes["split_axes"])
    for dim, along in zip(family.results(op)[0], split, strict=False):
        if along:
            family.factors.pin(dim, *(axes[axis] for axis in along))


@relates("shard.process_multi_index", "shard.process_linear_index", "mesh.idx", "mesh.size",
       "shard.grid_shape")  # fmt: skip
def _position(family: Family, op: Op) -> None:
    for number in op.results:
        for axis in family.grid_axes(op):
            family.count(number, axis)
