"""Expand gathers and scatters of StableHLO: one element of a slice after the other.

`stablehlo.gather` and `stablehlo.scatter`:

    for each position in the slices:
      at = indices[batch part of the position] + window part of the position
      gather:   result[position] = operand[at], with the slice's start clamped to be inside
      scatter:  operand[at] = join(operand[at], slices[position]), if that is inside

A gather is an op of linalg, which is fused with others.

`stablehlo.select_and_scatter` adds each source element at its window's best position:

    for each position in the source:
      for each position in its window, if that is inside of the operand:
        best = here, if there is none yet or select(operand[best], operand[here]) is false
      if there is a best one:
        result[best] = scatter(result[best], source[position])

The regions of the op are `select` and `scatter`. Upstream also converts the op if its windows do
not overlap, but takes the last of equal elements where `select` asks for the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.loops_and_masks import generic
from shard_dialect.ops.stablehlo.attribute_reading import integers
from shard_dialect.ops.stablehlo.gather_scatter import Numbers
from shard_dialect.ops.stablehlo.reduction_rules import SCATTER, SELECT
from shard_dialect.passes.lower.expansions import loop_code
from shard_dialect.passes.lower.expansions.loop_code import Number, Values

_LARGEST = 2**63 - 1
_FIRST_START = {"stablehlo.dynamic_slice": 1, "stablehlo.dynamic_update_slice": 2}


def signed_starts(op: ir.Operation) -> Sequence[ir.Value]:
    """Convert the unsigned indices of a scatter, or of a dynamic slice, to signed ones."""
    if op.name in _FIRST_START:
        numbers = range(_FIRST_START[op.name], len(op.operands))
    else:
        numbers = range(len(op.operands) // 2, len(op.operands) // 2 + 1)
    for number in numbers:
        op.operands[number] = _signed(op.operands[number])
    return list(op.results)


def _signed(indices: ir.Value) -> ir.Value:
    """Clamp indices that are too large for the signed type, which are past the end in any case."""
    element = indices.type.element_type
    if not isinstance(element, ir.IntegerType) or not element.is_unsigned:
        return indices
    if element.width == 64:
        indices = hlo.elementwise("minimum", indices, hlo.number(_LARGEST, indices.type))
    return hlo.convert(indices, build.integer(64))


def gather(op: ir.Operation) -> Sequence[ir.Value]:
    """The gathered slices, as a `linalg.generic`."""
    operand, indices = op.operands[0], _signed(op.operands[1])
    type_ = op.results[0].type
    dims, lengths = Numbers.of_gather(op), list(op.attributes["slice_sizes"])
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))

    def read(position: Sequence[Number]) -> ir.Value:
        return loop_code.element(indices, position)

    def look(_: ir.Value) -> ir.Value:
        position = [_round(dim) for dim in range(type_.rank)]
        starts = _starts(dims, type_.shape, indices.type, read, position)
        for dim in dims.indexed:
            last = operand.type.shape[dim] - lengths[dim]
            starts[dim] = loop_code.joined("minsi", loop_code.joined("maxsi", starts[dim], 0), last)
        return loop_code.element(operand, _in_slice(dims, starts, position, operand.type.rank))

    into = build.empty(type_)
    return list(generic([], into, [identity], ["parallel"] * type_.rank, look).results)


def _round(dim: int) -> ir.Value:
    number = {"dim": build.i64(dim)}
    return build.create_value("linalg.index", ir.IndexType.get(), [], number)


def scatter(op: ir.Operation) -> Sequence[ir.Value]:
    """The operand with the slices joined to it, by loops."""
    count = len(op.operands) // 2
    operands, indices = list(op.operands)[:count], build.buffer_of(op.operands[count])
    slices = list(map(build.buffer_of, list(op.operands)[count + 1 :]))
    results = list(map(loop_code.copy, operands))
    dims = Numbers.of_scatter(op)
    sizes, shape = slices[0].type.shape, operands[0].type.shape

    def read(position: Sequence[Number]) -> ir.Value:
        return loop_code.load(indices, position)

    def write(position: Values, _: Values) -> Values:
        starts = _starts(dims, sizes, indices.type, read, position)
        at = _in_slice(dims, starts, position, len(shape))

        def join() -> Values:
            elements = [loop_code.load(each, at) for each in results]
            elements += [loop_code.load(each, position) for each in slices]
            for value, into in zip(loop_code.applied(op, 0, elements), results, strict=True):
                loop_code.store(value, into, at)
            return []

        inside = [loop_code.is_inside(at[dim], shape[dim]) for dim in dims.indexed]
        return loop_code.only_if(loop_code.all_of(inside), join)

    loop_code.nest(sizes, write)
    return [build.tensor_of(each) for each in results]


def _starts(
    dims: Numbers,
    sizes: Sequence[int],
    indices: ir.ShapedType,
    read: Callable[[Sequence[Number]], ir.Value],
    position: Values,
) -> dict[int, ir.Value]:
    """The start of the slice for `position`, along the operand's dimensions that indices give."""
    batches = dims.batches(tuple(sizes), tuple(indices.shape))
    starts = {of: position[dim] for dim, (of, _) in batches.items() if of is not None}
    for number, of in enumerate(dims.indexed):
        at: list[Number] = [position[dim] for dim in batches]
        if dims.index_vector < indices.rank:
            at.insert(dims.index_vector, number)
        starts[of] = build.to_index(read(at))
    return starts


def _in_slice(dims: Numbers, starts: dict[int, ir.Value], position: Values, rank: int) -> Values:
    """The indices of an element in the operand."""
    offsets = {of: position[dim] for dim, of in dims.windows(rank).items()}
    offsets_found = []
    for dim in range(rank):
        known = [each[dim] for each in (starts, offsets) if dim in each]
        offsets_found.append(
            loop_code.joined("addi", *known) if len(known) == 2 else [*known, loop_code.index(0)][0]
        )
    return offsets_found


def keep(op: ir.Operation) -> Sequence[ir.Value]:
    """Before upstream's conversion, add a padding to the op, since upstream converts none with one.

    The padding is one element at the end of a dimension, or is one that goes there, such that the
    number of windows stays the same.
    """
    rank = op.operands[0].type.rank
    windows = integers(op, "window_dimensions", [1] * rank)
    strides = integers(op, "window_strides", [1] * rank)
    padding = integers(op, "padding", [0] * 2 * rank)
    for dim, size in enumerate(op.operands[0].type.shape):
        left_over = (size - windows[dim]) % strides[dim]
        # One element more at the end must not make room for another window: else the last one goes,
        # which no window reads.
        if strides[dim] > 1 and not any(padding):
            padding[2 * dim + 1] = 1 if left_over + 1 < strides[dim] else -1
    op.attributes["padding"] = build.dense(padding, build.integer(64), [rank, 2])
    return list(op.results)


def select_and_scatter(op: ir.Operation) -> Sequence[ir.Value]:
    """The result, by loops over windows."""
    operand, source, init = map(build.buffer_of, op.operands)
    rank, shape = operand.type.rank, list(operand.type.shape)
    windows = integers(op, "window_dimensions", [1] * rank)
    strides = integers(op, "window_strides", [1] * rank)
    lows = integers(op, "padding", [0] * 2 * rank)[::2]
    result = loop_code.allocated(operand.type)
    start = loop_code.load(init, [])

    def fill(indices: Values, _: Values) -> Values:
        loop_code.store(start, result, indices)
        return []

    def write(indices: Values, _: Values) -> Values:
        begins = [
            loop_code.joined("subi", loop_code.joined("muli", index, stride), low)
            for index, stride, low in zip(indices, strides, lows, strict=True)
        ]

        def look(offsets: Values, best: Values) -> Values:
            here = [
                loop_code.joined("addi", begin, offset)
                for begin, offset in zip(begins, offsets, strict=True)
            ]
            bounds = zip(here, shape, strict=True)
            is_inside = loop_code.all_of([loop_code.is_inside(at, size) for at, size in bounds])
            return loop_code.only_if(is_inside, lambda: _better(op, operand, best, here), best)

        is_found, *best = loop_code.nest(
            windows, look, [loop_code.bit(False), *[loop_code.index(0)] * rank]
        )

        def add() -> Values:
            elements = [loop_code.load(result, best), loop_code.load(source, indices)]
            loop_code.store(loop_code.applied(op, SCATTER, elements)[0], result, best)
            return []

        return loop_code.only_if(is_found, add)

    loop_code.nest(shape, fill)
    loop_code.nest(source.type.shape, write)
    return [build.tensor_of(result)]


def _better(op: ir.Operation, operand: ir.Value, best: Values, here: Values) -> Values:
    """Whether there is a best position now, and where: `here`, or as before."""
    is_found, *best_indices = best
    elements = [loop_code.load(operand, best_indices), loop_code.load(operand, here)]
    keeps = loop_code.joined("andi", is_found, loop_code.applied(op, SELECT, elements)[0])
    chosen = [loop_code.chosen(keeps, *each) for each in zip(best_indices, here, strict=True)]
    return [loop_code.bit(True), *chosen]
