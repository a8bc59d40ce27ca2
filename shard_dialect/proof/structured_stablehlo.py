"""Products, windows, reductions, lookups and sorts of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from shard_dialect.ir.bindings import submodule
from shard_dialect.proof.contractions import Over, contracted
from shard_dialect.proof.elementwise import combined, combining, identity, reduced
from shard_dialect.proof.machine import (
    Data,
    Machine,
    Unproven,
    Value,
    boxed,
    clipped,
    means,
    widened,
)
from shard_dialect.proof.reading import Block, Op, Type
from shard_dialect.proof.tensors import padded, transposed

_MOST_SORTED = 1 << 11
_MOST_ROUNDS = 1 << 12
_MOST_IN_WINDOWS = 1 << 29


def structured(op: Op, name: str, kind: str) -> Any:
    """A structured attribute, as the bindings' class for it."""
    return getattr(submodule("_mlir_libs._stablehlo"), kind)(op.attributes[name])


def listed(op: Op, name: str, default: Sequence[int]) -> list[int]:
    """A list of integers, or what it is where it is left out."""
    given = op.attributes.get(name)
    return list(default) if given is None else [int(n) for n in np.asarray(given).reshape(-1)]


@means("stablehlo.dot_general", "stablehlo.dot")
def _dot(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    ranks = [len(type_.shape) for type_ in op.operand_types]
    if op.name == "stablehlo.dot":
        batches: Any = ([], [])
        sums: Any = ([ranks[0] - 1], [0])
    else:
        dims = structured(op, "dot_dimension_numbers", "DotDimensionNumbers")
        batches = (dims.lhs_batching_dimensions, dims.rhs_batching_dimensions)
        sums = (dims.lhs_contracting_dimensions, dims.rhs_contracting_dimensions)
    left = list(range(ranks[0]))
    right = [ranks[0] + dim for dim in range(ranks[1])]
    for pair in (*zip(*batches, strict=True), *zip(*sums, strict=True)):
        right[pair[1]] = left[pair[0]]
    batch = [left[dim] for dim in batches[0]]
    summed = [left[dim] for dim in sums[0]]
    own = [loop for loop in (*left, *right) if loop not in batch and loop not in summed]
    a, b = (Over(value, tuple(loops)) for value, loops in zip(values, (left, right), strict=True))
    return _summed(m, a, b, [*batch, *own], op.type)


def _summed(m: Machine, a: Over, b: Over, kept: Sequence[int], type_: Type) -> Value:
    """The sum of products; one of bits is whether any is true."""
    if not type_.is_bit:
        return contracted(m, a, b, kept, type_)
    count = contracted(m, a, b, kept, replace(type_, width=64))
    return Value((count.data != 0).astype(np.int64), False)


@means("stablehlo.convolution")
def _convolution(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    dims = structured(op, "dimension_numbers", "ConvDimensionNumbers")
    image = transposed(
        m, values[0],
        [dims.input_batch_dimension, dims.input_feature_dimension, *dims.input_spatial_dimensions],
    )  # fmt: skip
    kernel = transposed(
        m, values[1],
        [dims.kernel_output_feature_dimension, dims.kernel_input_feature_dimension,
         *dims.kernel_spatial_dimensions],
    )  # fmt: skip
    space = len(dims.input_spatial_dimensions)
    ones = [1] * space
    strides = listed(op, "window_strides", ones)
    ends = np.asarray(listed(op, "padding", [0] * 2 * space)).reshape(space, 2).tolist()
    spread, dilation = (listed(op, name, ones) for name in ("lhs_dilation", "rhs_dilation"))
    if any(listed(op, "window_reversal", [0] * space)):
        flipped = [
            m.axes + 2 + dim
            for dim, is_reversed in enumerate(listed(op, "window_reversal", []))
            if is_reversed
        ]
        kernel = kernel.with_data(np.flip(kernel.data, tuple(flipped)))
    zero = identity(m, "add", op.operand_types[0])
    image = padded(
        m, image, zero, [0, 0, *(low for low, _ in ends)], [0, 0, *(high for _, high in ends)],
        [0, 0, *(each - 1 for each in spread)],
    )  # fmt: skip
    groups, batch_groups = op.attributes["feature_group_count"], op.attributes["batch_group_count"]
    seen = windows(m, image.data, kernel.data.shape[m.axes + 2 :], strides, dilation, 2)
    result = _grouped(m, op, image.with_data(seen), kernel, groups, batch_groups, space)
    order = [dims.output_batch_dimension, dims.output_feature_dimension,
             *dims.output_spatial_dimensions]  # fmt: skip
    return transposed(m, result, np.argsort(order).tolist())


def _grouped(
    m: Machine, op: Op, seen: Value, kernel: Value, groups: int, batch_groups: int, space: int
) -> Value:
    """Windows [batch, feature, places, window] times a kernel [output, feature, window]."""
    count = groups * batch_groups
    lead = seen.data.shape[: m.axes]
    batch, feature, *rest = seen.data.shape[m.axes :]
    if batch_groups > 1:
        image = seen.data.reshape((*lead, count, batch // count, feature, *rest))
    else:
        image = seen.data.reshape((*lead, batch, count, feature // count, *rest))
        image = np.moveaxis(image, m.axes + 1, m.axes)
    k_lead = kernel.data.shape[: m.axes]
    output, inner, *window = kernel.data.shape[m.axes :]
    weights = kernel.data.reshape((*k_lead, count, output // count, inner, *window))
    # Loops: 0 group, 1 batch, 2 feature, 3 output, then places, then windows.
    places = [4 + dim for dim in range(space)]
    inside = [4 + space + dim for dim in range(space)]
    a = Over(seen.with_data(image), (0, 1, 2, *places, *inside))
    b = Over(kernel.with_data(weights), (0, 3, 2, *inside))
    summed = _summed(m, a, b, [1, 0, 3, *places], op.type)
    lead = summed.data.shape[: m.axes]
    own, _, _, *sizes = summed.data.shape[m.axes :]
    return summed.with_data(summed.data.reshape((*lead, own, output, *sizes)))


def windows(
    m: Machine,
    data: Data,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    first: int = 0,
) -> Data:
    """The windows of the dimensions from `first` on: their places, then what is in each."""
    own = data.shape[m.axes + first :]
    counts = [
        max((size - (width - 1) * gap - 1) // step + 1, 0) if width else 0
        for size, width, step, gap in zip(own, window, strides, dilation, strict=True)
    ]
    total = prod((*data.shape[: m.axes + first], *counts, *window))
    if total > _MOST_IN_WINDOWS:
        raise Unproven(
            f"windows of {list(window)} have {total:,} elements in all: the prover evaluates up to "
            f"{_MOST_IN_WINDOWS:,}"
        )
    first += m.axes
    space = len(window)
    if 0 in counts:
        return np.zeros((*data.shape[:first], *counts, *window), data.dtype)
    extents = [(width - 1) * gap + 1 for width, gap in zip(window, dilation, strict=True)]
    seen = sliding_window_view(data, extents, tuple(range(first, first + space)))
    steps = [slice(None, None, step) for step in (*strides, *dilation)]
    return boxed(seen, steps)


def combiner(body: Block) -> str | None:
    """How a body combines its two arguments, where it is one op that is known to."""
    op, *others = body.ops
    *annotations, last = others or [op]
    if any(each.name != "sdy.sharding_constraint" for each in annotations):
        return None
    same = {each.results[0]: op.results for each in annotations}
    yielded = last.operands[0] if last.operands else -1
    if set(op.operands) != set(body.arguments) or same.get(yielded, last.operands) != op.results:
        return None
    return combining(op) if len(body.arguments) == 2 else None


@means("stablehlo.reduce")
def _reduce(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    count = len(values) // 2
    dims = [m.axes + dim for dim in op.attributes["dimensions"]]
    kind = combiner(op.body)
    if count == 1 and kind is not None:
        total = reduced(m, kind, values[0], op.types[0], dims)
        return [combined(m, kind, values[1], total, op.types[0])]
    return _folded(m, op, values[:count], values[count:], dims)


def _folded(
    m: Machine, op: Op, values: Sequence[Value], first: Sequence[Value], dims: Sequence[int]
) -> list[Value]:
    """A reduction by any body, halves with halves: where order counts, XLA does not say which."""
    moved = []
    lead = m.lead(*values)
    for value in (each.with_data(m.spread(each.data, lead)) for each in values):
        rest = [dim for dim in range(m.axes, value.data.ndim) if dim not in dims]
        data = value.data.transpose(*dims, *range(m.axes), *rest)
        shape = prod(data.shape[: len(dims)]), *data.shape[len(dims) :]
        moved.append(value.with_data(data.reshape(shape)))
    results = [
        each.with_data(widened(each.data, v.data.ndim - 1))
        for each, v in zip(first, moved, strict=True)
    ]
    with m.ordered():
        while moved[0].data.shape[0] > 1:
            half = moved[0].data.shape[0] // 2
            low = [each.with_data(each.data[:half]) for each in moved]
            high = [each.with_data(each.data[half : 2 * half]) for each in moved]
            joined = _along_first(m, op.body, low, high)
            moved = [
                both.with_data(np.concatenate([both.data, each.data[2 * half :]]))
                for both, each in zip(joined, moved, strict=True)
            ]
        if moved[0].data.shape[0] == 0:
            return results
        last = [each.with_data(each.data[0]) for each in moved]
        return m.run(op.body, {}, [*results, *last])


def _along_first(
    m: Machine, body: Block, low: Sequence[Value], high: Sequence[Value]
) -> list[Value]:
    """Run a body on arrays whose first dimension is before the axes of the grid."""

    def inward(value: Value) -> Value:
        return value.with_data(np.moveaxis(value.data, 0, -1))

    results = m.run(body, {}, [*map(inward, low), *map(inward, high)])
    return [each.with_data(np.moveaxis(each.data, -1, 0)) for each in results]


@means("stablehlo.reduce_window")
def _reduce_window(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    if len(values) != 2 or (kind := combiner(op.body)) is None:
        raise m.unproven(op, "reduces windows by a body that the prover does not know")
    rank = len(op.operand_types[0].shape)
    ones = [1] * rank
    ends = np.asarray(listed(op, "padding", [0] * 2 * rank)).reshape(rank, 2).tolist()
    neutral = identity(m, kind, op.types[0])
    image = padded(
        m, values[0], _around(m, op, values[1], neutral),
        [low for low, _ in ends], [high for _, high in ends],
        [each - 1 for each in listed(op, "base_dilations", ones)],
    )  # fmt: skip
    seen = windows(
        m, image.data, listed(op, "window_dimensions", ones),
        listed(op, "window_strides", ones), listed(op, "window_dilations", ones),
    )  # fmt: skip
    inside = [m.axes + rank + dim for dim in range(rank)]
    total = reduced(m, kind, image.with_data(seen), op.types[0], inside)
    return [combined(m, kind, values[1], total, op.types[0])]


def _around(m: Machine, op: Op, initial: Value, neutral: Value) -> Value:
    """What is around a tensor: where the initial value changes results, texts say other things."""
    if np.all(initial.data == neutral.data):
        return neutral
    drawn = m.field.drawn(m.field.key("around"), m.elements(initial))
    if op.types[0].is_float:
        return Value(drawn, True)
    return Value(m.as_integers(drawn, op.types[0], 16), False)


@means("stablehlo.gather")
def _gather(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    dims = structured(op, "dimension_numbers", "GatherDimensionNumbers")
    sizes = list(op.attributes["slice_sizes"])
    source, starts = values[0].data, m.positions(values[1], op.operand_types[1])
    offsets = list(dims.offset_dims)
    rank = len(op.type.shape)
    batch = [dim for dim in range(rank) if dim not in offsets]
    places = _starts(m, starts, dims.index_vector_dim, dims.start_index_map, batch, rank)
    shape = source.shape[m.axes :]
    indices: list[Any] = []
    free = iter(offsets)
    inside = m.aranges(op.type.shape)
    batching = dict(zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True))
    for dim, size in enumerate(shape):
        index: Any = 0
        if dim in places:
            index = clipped(places[dim], 0, size - sizes[dim])
        elif dim in batching:
            at = batching[dim]
            index = inside[batch[at - (at > dims.index_vector_dim)]]
        if dim not in dims.collapsed_slice_dims and dim not in batching:
            index = index + inside[next(free)]
        indices.append(np.zeros((1,) * (m.axes + rank), np.int64) + index)
    picked = m.picked(source, indices)
    picked = np.broadcast_to(picked, (*picked.shape[: m.axes], *op.type.shape))
    return values[0].with_data(picked)


def _starts(
    m: Machine, starts: Data, vector: int, mapped: Sequence[int], batch: Sequence[int], rank: int
) -> dict[int, Data]:
    """For each dimension of the operand where slices begin, over the dimensions of the result."""
    if vector == starts.ndim - m.axes:
        starts = starts[..., None]
    starts = np.moveaxis(starts, m.axes + vector, -1)
    shape = [1] * rank
    for dim, size in zip(batch, starts.shape[m.axes : -1], strict=True):
        shape[dim] = size
    return {
        dim: starts[..., at].reshape((*starts.shape[: m.axes], *shape))
        for at, dim in enumerate(mapped)
    }


@means("stablehlo.scatter")
def _scatter(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    count = (len(values) - 1) // 2
    dims = structured(op, "scatter_dimension_numbers", "ScatterDimensionNumbers")
    operands, updates = values[:count], values[count + 1 :]
    shape = op.types[0].shape
    changed = op.operand_types[count + 1].shape
    rank = len(changed)
    windows = list(dims.update_window_dims)
    batch = [dim for dim in range(rank) if dim not in windows]
    places = _starts(
        m, m.positions(values[count], op.operand_types[count]), dims.index_vector_dim,
        dims.scattered_dims_to_operand_dims, batch, rank,
    )  # fmt: skip
    batching = dict(zip(dims.input_batching_dims, dims.scatter_indices_batching_dims, strict=True))
    inside = m.aranges(changed)
    free = iter(windows)
    indices: list[Any] = []
    valid: Any = True
    for dim, size in enumerate(shape):
        index: Any = clipped(places[dim], -1, size) if dim in places else 0
        width = 1
        if dim in batching:
            at = batching[dim]
            index = inside[batch[at - (at > dims.index_vector_dim)]]
        elif dim not in dims.inserted_window_dims:
            window = next(free)
            valid = valid & (index >= 0) & (index + changed[window] <= size)
            index = index + inside[window]
            width = 0
        if width:
            valid = valid & (index >= 0) & (index < size)
        indices.append(index)
    return _scattered(m, op, operands, updates, indices, valid)


def _scattered(
    m: Machine,
    op: Op,
    operands: Sequence[Value],
    updates: Sequence[Value],
    indices: Sequence[Any],
    valid: Any,
) -> list[Value]:
    """Combine each update with the element at its place, those of one place after each other."""
    changed, shape = op.operand_types[-1].shape, op.types[0].shape
    symbolic = [a.is_symbolic or b.is_symbolic for a, b in zip(operands, updates, strict=True)]
    given = [
        [m.elements(each) if is_symbolic else each.data for each in pair]
        for is_symbolic, pair in zip(symbolic, zip(operands, updates, strict=True), strict=True)
    ]
    varying = [np.asarray(each) for each in (*indices, valid)]
    lead = np.broadcast_shapes(
        *(each.shape[: m.axes] for pair in given for each in pair),
        *(each.shape[: m.axes] for each in varying if each.ndim),
    )
    devices = prod(lead)

    def flat(array: Any, own: Sequence[int]) -> Data:
        array = np.asarray(array)
        array = array if array.ndim else array.reshape((1,) * (m.axes + len(own)))
        return np.broadcast_to(array, (*lead, *own)).reshape(devices, -1)

    place = np.zeros((devices, prod(changed)), np.int64)
    for index, size in zip(indices, shape, strict=True):
        place = place * size + flat(clipped(index, 0, max(size - 1, 0)), changed)
    place += np.arange(devices)[:, None] * prod(shape)
    keep = flat(valid, changed).astype(bool).reshape(-1)
    into = [flat(old, shape).reshape(-1).copy() for old, _ in given]
    new = [flat(each, changed).reshape(-1)[keep] for _, each in given]
    targets = place.reshape(-1)[keep]
    for chosen in _rounds(m, op, targets):
        at = targets[chosen]
        old = [Value(m.scalar(each[at]), s) for each, s in zip(into, symbolic, strict=True)]
        fresh = [Value(m.scalar(each[chosen]), s) for each, s in zip(new, symbolic, strict=True)]
        for number, result in enumerate(m.run(op.body, {}, [*old, *fresh])):
            data = m.elements(result) if symbolic[number] else result.data
            into[number][at] = np.broadcast_to(data.reshape(-1), at.shape)
    return [
        Value(each.reshape((*lead, *shape)), is_symbolic)
        for each, is_symbolic in zip(into, symbolic, strict=True)
    ]


def _rounds(m: Machine, op: Op, targets: Data) -> list[Data]:
    """The updates, in rounds in which no place comes twice."""
    order = np.argsort(targets, kind="stable")
    same = targets[order]
    first = np.concatenate([[True], same[1:] != same[:-1]]) if len(same) else np.zeros(0, bool)
    starts = np.maximum.accumulate(np.where(first, np.arange(len(same)), 0))
    turn = np.arange(len(same)) - starts
    rounds = int(turn.max(initial=-1)) + 1
    if rounds > _MOST_ROUNDS:
        raise m.unproven(op, f"writes {rounds} times to one place: too often to follow")
    return [order[turn == number] for number in range(rounds)]


@means("stablehlo.select_and_scatter")
def _select_and_scatter(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """Each source element goes to the element that its window selects."""
    rank = len(op.type.shape)
    ones = [1] * rank
    ends = np.asarray(listed(op, "padding", [0] * 2 * rank)).reshape(rank, 2).tolist()
    window = listed(op, "window_dimensions", ones)
    strides = listed(op, "window_strides", ones)
    source, kind = values[1], combiner(op.regions[1])
    if kind is None:
        raise m.unproven(op, "scatters by a body that the prover does not know")
    positions = np.arange(prod(op.type.shape)).reshape(op.type.shape)
    low, high = [a for a, _ in ends], [b for _, b in ends]
    nowhere = Value(m.scalar(np.array(-1)), False)
    numbered = padded(m, Value(m.scalar(positions), False), nowhere, low, high, [0] * rank)
    zero = Value(m.scalar(np.array(0, np.uint64)), True)
    operand = padded(m, Value(m.elements(values[0]), True), zero, low, high, [0] * rank)
    at, seen = (windows(m, each.data, window, strides, ones) for each in (numbered, operand))
    lead = np.broadcast_shapes(seen.shape[: m.axes], at.shape[: m.axes])
    places = seen.shape[m.axes : m.axes + rank]
    inside = *lead, *places, prod(window)
    at = np.broadcast_to(at, (*lead, *at.shape[m.axes :])).reshape(inside)
    seen = m.spread(seen, lead).reshape(inside)
    best_at, best = at[..., 0], seen[..., 0]
    with m.ordered():
        for number in range(1, at.shape[-1]):
            here, value = at[..., number], seen[..., number]
            (keeps,) = m.run(op.regions[0], {}, [Value(best, True), Value(value, True)])
            wins = (here >= 0) & ((best_at < 0) | (keeps.data == 0))
            best_at, best = np.where(wins, here, best_at), np.where(wins, value, best)
    return _to_places(m, op, kind, source, best_at, values[2])


def _to_places(m: Machine, op: Op, kind: str, source: Value, places: Data, first: Value) -> Value:
    """The sums of the source's elements that go to each place."""
    shape, type_ = op.type.shape, op.type
    lead = np.broadcast_shapes(source.data.shape[: m.axes], places.shape[: m.axes])
    devices = prod(lead)
    count = prod(places.shape[m.axes :])
    data = m.spread(source.data, lead).reshape(devices, count)
    at = np.broadcast_to(places, (*lead, *places.shape[m.axes :])).reshape(devices, count)
    neutral = identity(m, kind, type_)
    into = np.broadcast_to(neutral.data.reshape(-1)[:1], (devices * prod(shape),)).copy()
    targets = (at + np.arange(devices)[:, None] * prod(shape)).reshape(-1)
    keep = at.reshape(-1) >= 0
    targets, data = targets[keep], data.reshape(-1)[keep]
    for chosen in _rounds(m, op, targets):
        here = targets[chosen]
        old = source.with_data(m.scalar(into[here]))
        new = source.with_data(m.scalar(data[chosen]))
        into[here] = combined(m, kind, old, new, type_).data.reshape(-1)
    total = source.with_data(into.reshape((*lead, *shape)))
    return combined(m, kind, first, total, type_)


@means("stablehlo.sort")
def _sort(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    """By comparing each element with each: an element's place is the number of those before it."""
    dim = int(op.attributes.get("dimension", -1)) % max(len(op.types[0].shape), 1)
    size = op.types[0].shape[dim]
    if size > _MOST_SORTED:
        raise m.unproven(op, f"sorts {size} elements: the prover does up to {_MOST_SORTED}")
    lead = m.lead(*values)
    moved = [
        each.with_data(np.moveaxis(m.spread(each.data, lead), m.axes + dim, -1)) for each in values
    ]

    def pair(value: Value) -> list[Value]:
        return [
            value.with_data(value.data[..., :, None]),
            value.with_data(value.data[..., None, :]),
        ]

    with m.ordered():
        (before,) = m.run(op.body, {}, [each for value in moved for each in pair(value)])
    less = np.broadcast_to(m.integers(before), (*moved[0].data.shape, size)).astype(bool)
    earlier = np.tri(size, k=-1, dtype=bool).T  # of i and j: i stands before j
    goes_first = less | (earlier & ~np.swapaxes(less, -1, -2))
    place = goes_first.sum(axis=-2)
    order = np.argsort(place, axis=-1, kind="stable")
    return [
        each.with_data(np.moveaxis(np.take_along_axis(each.data, order, -1), -1, m.axes + dim))
        for each in moved
    ]


@means("chlo.top_k")
def _top_k(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    data, count = values[0].data, op.attributes["k"]
    keys = m.ranks(data) if values[0].is_symbolic else data
    order = np.argsort(-keys, axis=-1, kind="stable")[..., :count]
    return [
        values[0].with_data(np.take_along_axis(data, order, -1)),
        Value(order.astype(np.int64), False),
    ]
