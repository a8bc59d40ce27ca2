"""Expand `stablehlo.select_and_scatter`: add each source element at its window's best position.

    for each position in the source:
      for each position in its window, if that is inside of the operand:
        best = here, if there is none yet or select(operand[best], operand[here]) is false
      if there is a best one:
        result[best] = scatter(result[best], source[position])

The regions of the op are `select` and `scatter`. Upstream also converts the op if its windows do
not overlap, but takes the last of equal elements where `select` asks for the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.passes.lower.expansions import loop_code
from shard_dialect.passes.lower.expansions.loop_code import Values
from shard_dialect.rules.stablehlo.attribute_reading import integers

_SELECT, _SCATTER = 0, 1
"""The numbers of the op's regions."""


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
        if strides[dim] > 1 and not any(padding):
            padding[2 * dim + 1] = 1 if left_over + 1 < strides[dim] else -1
    i64 = ir.IntegerType.get_signless(64)
    type_ = ir.RankedTensorType.get([rank, 2], i64)
    numbers = [ir.IntegerAttr.get(i64, each) for each in padding]
    op.attributes["padding"] = ir.DenseElementsAttr.get(numbers, type_)
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
            loop_code.store(loop_code.applied(op, _SCATTER, elements)[0], result, best)
            return []

        return loop_code.only_if(is_found, add)

    loop_code.nest(shape, fill)
    loop_code.nest(source.type.shape, write)
    return [build.tensor_of(result)]


def _better(op: ir.Operation, operand: ir.Value, best: Values, here: Values) -> Values:
    """Whether there is a best position now, and where: `here`, or as before."""
    is_found, *best_indices = best
    elements = [loop_code.load(operand, best_indices), loop_code.load(operand, here)]
    keeps = loop_code.joined("andi", is_found, loop_code.applied(op, _SELECT, elements)[0])
    chosen = [loop_code.chosen(keeps, *each) for each in zip(best_indices, here, strict=True)]
    return [loop_code.bit(True), *chosen]
