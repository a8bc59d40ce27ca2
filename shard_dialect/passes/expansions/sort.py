"""`stablehlo.sort`: runs of 1, 2, 4, ... elements are merged, in each row by itself.

    for level in 0 .. ceil(log2(n)):            # runs of 2^level elements are sorted
      for place in 0 .. n:                      # the next of the left run, or of the right one
        if the left run is at its end, or row[right] is less than row[left]:
          made[place] = row[right++]
        else:
          made[place] = row[left++]

Equal ones stay in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.expansions import code
from shard_dialect.passes.expansions.code import Carried
from shard_dialect.rules.stablehlo.attributes import integer


def sort(op: ir.Operation) -> Sequence[ir.Value]:
    operands = list(op.operands)
    shape = list(operands[0].type.shape)
    dim = integer(op, "dimension") % max(1, len(shape))
    if not shape or shape[dim] < 2 or 0 in shape:
        return operands
    size = shape[dim]
    others = [1 if each == dim else count for each, count in enumerate(shape)]
    row = [size if each == dim else 1 for each in range(len(shape))]
    made = [build.empty(each.type).results[0] for each in operands]

    def write(places: list[ir.Value], into: Carried) -> Carried:
        offsets = [0 if each == dim else place for each, place in enumerate(places)]
        rows = [code.part(each, offsets, row, [dim]) for each in operands]
        merged = _sorted(op, rows, size)
        return [code.with_part(*each) for each in _each(into, offsets, row, merged)]

    return code.nest(others, made, write)


def _each(
    into: Carried, offsets: Sequence[code.Number], sizes: Sequence[int], values: Carried
) -> list[tuple[ir.Value, Sequence[code.Number], Sequence[int], ir.Value]]:
    pairs = zip(into, values, strict=True)
    return [(tensor, offsets, sizes, value) for tensor, value in pairs]


def _sorted(op: ir.Operation, rows: Carried, size: int) -> Carried:
    def level(number: ir.Value, rows: Carried) -> Carried:
        width = code.joined("shli", 1, number)
        fresh = [build.empty(each.type).results[0] for each in rows]
        zero = code.index(0)

        def step(place: ir.Value, carried: Carried) -> Carried:
            return _step(op, rows, size, width, place, carried)

        return code.loop(0, size, [zero, zero, *fresh], step)[2:]

    return code.loop(0, (size - 1).bit_length(), rows, level)


def _step(
    op: ir.Operation,
    rows: Carried,
    size: int,
    width: ir.Value,
    place: ir.Value,
    carried: Carried,
) -> Carried:
    """Write what comes at `place`; `carried` are the next of the left and of the right run."""
    left, right, *into = carried
    both = code.joined("addi", width, width)
    within = code.joined("remsi", place, both)
    start = code.joined("subi", place, within)
    middle, end = (
        code.joined("minsi", code.joined("addi", start, each), size) for each in (width, both)
    )
    begins = code.less(within, 1)
    left = code.chosen(begins, start, left)
    right = code.chosen(begins, middle, right)
    compared = [
        code.point(row, [code.joined("minsi", each, size - 1)])
        for row in rows
        for each in (right, left)
    ]
    is_less = code.applied_to(op, 0, compared)
    is_left_over = code.less(left, middle)
    takes_left = code.joined(
        "andi",
        is_left_over,
        code.joined("ori", _not(code.less(right, end)), _not(is_less)),
    )
    source = code.chosen(takes_left, left, right)
    one = code.chosen(takes_left, 1, 0)
    return [
        code.joined("addi", left, one),
        code.joined("addi", right, code.joined("subi", 1, one)),
        *(
            code.with_element(tensor, [place], code.element(row, [source]))
            for tensor, row in zip(into, rows, strict=True)
        ),
    ]


def _not(bit: ir.Value) -> ir.Value:
    return code.joined("xori", bit, code.bit(True))
