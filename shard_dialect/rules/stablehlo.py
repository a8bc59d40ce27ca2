"""StableHLO ops whose pieces are computed by the very same op on smaller tensors.

A dimension that an op's attributes speak of (what is sliced, sorted, concatenated or padded) stays
whole; so do reductions by anything but one of the four kinds, and those that do not start from the
identity. Ops whose attributes hold sizes of what is split (slices) have no rule here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.build import identity, splat_value
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Reduction, ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.rules.pointwise import elementwise
from shard_dialect.rules.query import CutFunction, Query
from shard_dialect.rules.reshape import reshaped

_Dims = tuple[tuple[int, ...], ...]

_REDUCERS: dict[str, Reduction] = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "product",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
}


def _ints(op: ir.Operation, name: str) -> list[int]:
    return list(op.attributes[name])


def with_scalars(query: Query) -> ShardingRule | None:
    """Elementwise, but for operands that are scalars: `clamp`'s bounds, `select`'s condition."""
    shape = query.results[0]
    if shape is None:
        return None
    whole = tuple((dim,) for dim in range(len(shape)))

    def dims(other: Shape | None) -> _Dims | None:
        return None if other is None else whole if other == shape else ((),) * len(other)

    return ShardingRule(shape, tuple(map(dims, query.operands)), tuple(map(dims, query.results)))


def dot_general(query: Query) -> ShardingRule | None:
    """Batch dimensions, those of the left side, those of the right; contracted ones are summed."""
    lhs, rhs = query.operands
    if lhs is None or rhs is None:
        return None
    numbers = str(query.op.attributes["dot_dimension_numbers"])
    sizes: list[int] = []
    left: list[tuple[int, ...]] = [()] * len(lhs)
    right: list[tuple[int, ...]] = [()] * len(rhs)
    batch = (
        _listed(numbers, "lhs_batching_dimensions"),
        _listed(numbers, "rhs_batching_dimensions"),
    )
    summed = (
        _listed(numbers, "lhs_contracting_dimensions"),
        _listed(numbers, "rhs_contracting_dimensions"),
    )
    result = []
    for pairs, is_batch in ((batch, True), (summed, False)):
        for a, b in zip(*pairs, strict=True):
            left[a] = right[b] = (len(sizes),)
            if is_batch:
                result.append(left[a])
            sizes.append(lhs[a])
    reductions = range(len(batch[0]), len(sizes))
    for dims, shape, taken in (
        (left, lhs, batch[0] + summed[0]),
        (right, rhs, batch[1] + summed[1]),
    ):
        for dim, size in enumerate(shape):
            if dim not in taken:
                dims[dim] = (len(sizes),)
                result.append(dims[dim])
                sizes.append(size)
    kinds: tuple[tuple[int, Reduction], ...] = tuple((factor, "sum") for factor in reductions)
    return ShardingRule(tuple(sizes), (tuple(left), tuple(right)), (tuple(result),), kinds)


def broadcast_in_dim(query: Query) -> ShardingRule | None:
    """Each dimension of the operand is one of the result's, or of size 1 and repeated."""
    operand, result = query.operands[0], query.results[0]
    if operand is None or result is None:
        return None
    to = _ints(query.op, "broadcast_dimensions")
    dims = tuple(
        (dim,) if size == result[dim] else () for size, dim in zip(operand, to, strict=True)
    )
    return ShardingRule(result, (dims,), (tuple((dim,) for dim in range(len(result))),))


def transpose(query: Query) -> ShardingRule | None:
    operand, result = query.operands[0], query.results[0]
    if operand is None or result is None:
        return None
    order = _ints(query.op, "permutation")
    return ShardingRule(
        operand, (tuple((dim,) for dim in range(len(operand))),), (tuple((d,) for d in order),)
    )


def reshape(query: Query) -> ShardingRule | None:
    operand, result = query.operands[0], query.results[0]
    return None if operand is None or result is None else reshaped(operand, result)


def reduce(query: Query) -> ShardingRule | None:
    """`reduce(inputs, inits)`: reduced dimensions are split only by a kind, from its identity."""
    count = len(query.op.results)
    shape = query.operands[0]
    if shape is None:
        return None
    gone = _ints(query.op, "dimensions")
    kind = _kind(query.op) if count == 1 and _starts_from_identity(query.op) else None
    whole = tuple((dim,) for dim in range(len(shape)))
    kept = tuple(dims for dim, dims in enumerate(whole) if dim not in gone)
    scalars: tuple[_Dims, ...] = ((),) * count
    return ShardingRule(
        shape,
        (whole,) * count + scalars,
        (kept,) * count,
        tuple((dim, kind) for dim in gone) if kind else (),
        frozenset() if kind else frozenset(gone),
    )


def _kind(op: ir.Operation) -> Reduction | None:
    """The one op of the region, if it is a reduction of its two arguments."""
    inside = operations(body(op))
    if len(inside) != 2 or list(inside[1].operands) != list(inside[0].results):
        return None
    if set(inside[0].operands) != set(body(op).arguments):
        return None
    element = op.results[0].type.element_type
    if isinstance(element, ir.IntegerType) and element.width == 1:
        return None  # of i1, add is or
    is_ordered = isinstance(element, ir.FloatType) or not element.is_unsigned
    return _REDUCERS.get(inside[0].name) if is_ordered else None


def _starts_from_identity(op: ir.Operation) -> bool:
    kind = _kind(op)
    start = splat_value(op.operands[1])
    return kind is not None and start is not None and start == identity(kind, start.type)


def all_but(*names: str) -> Callable[[Query], ShardingRule | None]:
    """All dimensions pass but those that the op's attributes `names` speak of, which stay whole."""

    def rule(query: Query) -> ShardingRule | None:
        named: set[int] = set()
        for name in names:
            attribute = query.op.attributes[name]
            given = [attribute.value] if isinstance(attribute, ir.IntegerAttr) else attribute
            named |= set(given)
        return _keeping(query, named)

    return rule


def _keeping(query: Query, whole: set[int]) -> ShardingRule | None:
    """One factor for each dimension of all tensors, whose sizes may differ in the whole ones."""
    shape = query.results[0]
    if shape is None:
        return None
    passed = tuple(() if dim in whole else (dim,) for dim in range(len(shape)))

    def dims(other: Shape | None) -> _Dims | None:
        if other is None:
            return None
        return passed if len(other) == len(shape) else ((),) * len(other)

    return ShardingRule(shape, tuple(map(dims, query.operands)), tuple(map(dims, query.results)))


def slice_(query: Query) -> ShardingRule | None:
    """Dimensions that are not sliced pass; of others a piece's slice is in part another's."""
    return _mismatch(query.operands[0], query.results[0], permuted=True)


def _mismatch(
    operand: Shape | None, result: Shape | None, *, permuted: bool = False
) -> ShardingRule | None:
    """Dimension by dimension; where sizes differ they are `permuted`, or else needed whole."""
    if operand is None or result is None:
        return None
    differ = frozenset(dim for dim, size in enumerate(operand) if size != result[dim])
    whole = tuple((dim,) for dim in range(len(operand)))
    if permuted:
        return ShardingRule(operand, (whole,), (whole,), permuted=differ)
    return ShardingRule(operand, (whole,), (whole,), whole=differ)


def cut_slice(op: ir.Operation, results: Sequence[Shape | None]) -> None:
    """What is split is not sliced: it ends where the piece does."""
    ends, shape = _ints(op, "limit_indices"), results[0]
    before = tuple(op.results[0].type.shape)
    assert shape is not None, "a slice of known size"
    ends = [new if new != old else end for end, old, new in zip(ends, before, shape, strict=True)]
    op.attributes["limit_indices"] = ir.DenseI64ArrayAttr.get(ends)


def pad(query: Query) -> ShardingRule | None:
    """Dimensions without padding pass."""
    given = [_ints(query.op, f"{name}") for name in _PADDINGS]
    return _keeping(query, {dim for dims in given for dim, size in enumerate(dims) if size})


_PADDINGS = ("edge_padding_low", "edge_padding_high", "interior_padding")


def dynamic_update_slice(query: Query) -> ShardingRule | None:
    """Dimensions that the update fills pass; the indices are scalars."""
    operand, update = query.operands[:2]
    if operand is None or update is None:
        return None
    sizes = zip(operand, update, strict=True)
    return _keeping(query, {dim for dim, (size, new) in enumerate(sizes) if size != new})


def reduce_window(query: Query) -> ShardingRule | None:
    """Dimensions pass where the window is one element, and moves by one."""
    moves = {"window_dimensions", "window_strides", "base_dilations", "window_dilations"}
    windows = [_ints(query.op, name) for name in moves if name in query.op.attributes]
    whole = {dim for dims in windows for dim, size in enumerate(dims) if size != 1}
    if "padding" in query.op.attributes:
        padding = _ints(query.op, "padding")  # two for each dimension, in one list
        whole |= {place // 2 for place, size in enumerate(padding) if size}
    return _keeping(query, whole)


def gather(query: Query) -> ShardingRule | None:
    """What is batched over passes; the dimensions that are looked up, and their pieces, stay whole.

    operand [v, d], indices [i, j, 1] -> [i, j, d]    ([1, 1], [a, b, 1]) -> ([a, b, 1])
    """
    operand, indices = query.operands
    result = query.results[0]
    if operand is None or indices is None or result is None:
        return None
    numbers = str(query.op.attributes["dimension_numbers"])
    batch = [dim for dim in range(len(indices)) if dim != _number(numbers, "index_vector_dim")]
    offset = _listed(numbers, "offset_dims")
    factors = {dim: factor for factor, dim in enumerate(batch)}
    of_operand: list[tuple[int, ...]] = [()] * len(operand)
    for dim, of_indices in zip(
        _listed(numbers, "operand_batching_dims"),
        _listed(numbers, "start_indices_batching_dims"),
        strict=True,
    ):
        of_operand[dim] = (factors[of_indices],)
    order = iter(range(len(batch)))
    return ShardingRule(
        tuple(indices[dim] for dim in batch),
        (
            tuple(of_operand),
            tuple((factors[dim],) if dim in factors else () for dim in range(len(indices))),
        ),
        (tuple(() if dim in offset else (next(order),) for dim in range(len(result))),),
    )


def _listed(numbers: str, name: str) -> list[int]:
    """The dimensions in `name = [0, 1]`, none where it does not stand."""
    match = re.search(rf"\b{name} = \[([\d, ]*)\]", numbers)
    return [int(each) for each in match[1].split(",")] if match and match[1] else []


def _number(numbers: str, name: str) -> int:
    """The number in `name = 1`; 0, which is not printed, where it does not stand."""
    match = re.search(rf"\b{name} = (\d+)", numbers)
    return int(match[1]) if match else 0


def convolution(query: Query) -> ShardingRule | None:
    """Batch, input and output features; what the window goes over stays whole."""
    lhs, rhs = query.operands[:2]
    if lhs is None or rhs is None or query.results[0] is None:
        return None
    text = str(query.op.attributes["dimension_numbers"])
    match = re.search(r"\[([\w, ]*)\]x\[([\w, ]*)\]->\[([\w, ]*)\]", text)
    groups = [query.op.attributes[f"{name}_group_count"].value for name in ("feature", "batch")]
    if match is None or groups != [1, 1]:
        return None
    factors = {("b", 0): 0, ("f", 0): 1, ("i", 1): 1, ("o", 1): 2, ("b", 2): 0, ("f", 2): 2}
    tensors = [
        tuple((factors[name, side],) if (name, side) in factors else () for name in names)
        for side, names in enumerate(re.split(r",\s*", each) for each in match.groups())
    ]
    batch, features = (tensors[0].index((factor,)) for factor in (0, 1))
    sizes = (lhs[batch], lhs[features], rhs[tensors[1].index((2,))])
    return ShardingRule(sizes, tuple(tensors[:2]), (tensors[2],), ((1, "sum"),))


_ELEMENTWISE = (
    "abs add and atan2 cbrt ceil compare complex convert cosine count_leading_zeros divide "
    "exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum "
    "minimum multiply negate not or popcnt power real reduce_precision remainder round_nearest_afz "
    "round_nearest_even rsqrt shift_left shift_right_arithmetic shift_right_logical sign sine sqrt "
    "subtract tan tanh xor constant"
).split()

RULES: dict[str, Callable[[Query], ShardingRule | None]] = {
    **{f"stablehlo.{name}": elementwise for name in _ELEMENTWISE},
    "stablehlo.broadcast_in_dim": broadcast_in_dim,
    "stablehlo.clamp": with_scalars,
    "stablehlo.concatenate": all_but("dimension"),
    "stablehlo.convolution": convolution,
    "stablehlo.dot_general": dot_general,
    "stablehlo.dynamic_update_slice": dynamic_update_slice,
    "stablehlo.gather": gather,
    "stablehlo.iota": all_but("iota_dimension"),
    "stablehlo.pad": pad,
    "stablehlo.reduce": reduce,
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.reshape": reshape,
    "stablehlo.reverse": all_but("dimensions"),
    "stablehlo.select": with_scalars,
    "stablehlo.slice": slice_,
    "stablehlo.sort": all_but("dimension"),
    "stablehlo.transpose": transpose,
}

CUTS: dict[str, CutFunction] = {
    "stablehlo.slice": cut_slice,
}
