"""`stablehlo.select_and_scatter`: elements of the source go to where their windows' best ones are.

    for each place of the source:
      for each place in its window, if that is inside of the operand:
        best = here, if there is none yet or select(operand[best], operand[here]) is false
      if there is a best one:
        result[best] = scatter(result[best], source[place])

The regions of the op are `select` and `scatter`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.passes.expansions import code
from shard_dialect.passes.expansions.code import Carried
from shard_dialect.rules.stablehlo.arithmetic import broadcast
from shard_dialect.rules.stablehlo.attributes import integers

_SELECT, _SCATTER = 0, 1
"""The op's regions."""


def select_and_scatter(op: ir.Operation) -> Sequence[ir.Value]:
    operand, source, init = op.operands
    rank, shape = operand.type.rank, list(operand.type.shape)
    windows = integers(op, "window_dimensions", [1] * rank)
    strides = integers(op, "window_strides", [1] * rank)
    lows = integers(op, "padding", [0] * 2 * rank)[::2]
    result = broadcast(init, shape, [])

    def write(places: list[ir.Value], carried: Carried) -> Carried:
        begins = [
            code.joined("subi", code.joined("muli", place, stride), low)
            for place, stride, low in zip(places, strides, lows, strict=True)
        ]

        def look(offsets: list[ir.Value], best: Carried) -> Carried:
            here = [
                code.joined("addi", begin, offset)
                for begin, offset in zip(begins, offsets, strict=True)
            ]
            bounds = [
                (code.less(-1, at), code.less(at, n)) for at, n in zip(here, shape, strict=True)
            ]
            is_inside = code.all_of([each for pair in bounds for each in pair])
            return code.only_if(is_inside, best, lambda: _better(op, operand, best, here))

        found, *best = code.nest(windows, [code.bit(False), *[code.index(0)] * rank], look)

        def add() -> Carried:
            (into,) = carried
            parts = [code.point(into, best), code.point(source, places)]
            return [code.with_element(into, best, code.applied_to(op, _SCATTER, parts))]

        return code.only_if(found, carried, add)

    return code.nest(source.type.shape, [result], write)


def _better(op: ir.Operation, operand: ir.Value, best: Carried, here: list[ir.Value]) -> Carried:
    """Whether there is a best one so far, and where: `here`, or as before."""
    found, *places = best
    keeps = code.applied_to(op, _SELECT, [code.point(operand, places), code.point(operand, here)])
    keeps = code.joined("andi", found, keeps)
    chosen = [code.chosen(keeps, *each) for each in zip(places, here, strict=True)]
    return [code.bit(True), *chosen]
