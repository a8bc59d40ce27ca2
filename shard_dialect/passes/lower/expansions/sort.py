"""Expand `stablehlo.sort` to a merge sort of each row: runs of 1, 2, 4, ... elements are merged.

    for level in 0 .. ceil(log2(n)):            # runs of 2^level elements are sorted
      for place in 0 .. n:                      # the next of the left run, or of the right one
        if the left run is at its end, or row[right] is less than row[left]:
          made[place] = row[right++]
        else:
          made[place] = row[left++]

The sort is stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ops.stablehlo.attribute_reading import sorted_dim
from shard_dialect.passes.lower.expansions import loop_code
from shard_dialect.passes.lower.expansions.loop_code import Number, Values


def sort(op: ir.Operation) -> Sequence[ir.Value]:
    """The sorted operands, by loops."""
    operands = list(op.operands)
    shape = list(operands[0].type.shape)
    dim = sorted_dim(op)
    if shape[dim] < 2 or 0 in shape:
        return operands
    sources, results = (
        map(build.buffer_of, operands),
        [loop_code.allocated(each.type) for each in operands],
    )
    pairs = list(zip(sources, results, strict=True))
    size = shape[dim]
    rows = _Rows(
        op, size, [loop_code.allocated(build.resized(each.type, [size]), 2) for each in operands]
    )

    def write(indices: Values, _: Values) -> Values:
        def at(index: Number) -> list[Number]:
            return [index if each == dim else other for each, other in enumerate(indices)]

        def take(index: ir.Value, _: Values) -> Values:
            for (source, _into), row in zip(pairs, rows.halves, strict=True):
                loop_code.store(loop_code.load(source, at(index)), row, [0, index])
            return []

        def put(index: ir.Value, _: Values) -> Values:
            for (_source, into), row in zip(pairs, rows.halves, strict=True):
                loop_code.store(loop_code.load(row, [rows.levels % 2, index]), into, at(index))
            return []

        loop_code.loop(0, size, [], take)
        rows.sort()
        loop_code.loop(0, size, [], put)
        return []

    loop_code.nest([1 if each == dim else count for each, count in enumerate(shape)], write)
    return [build.tensor_of(each) for each in results]


@dataclass(frozen=True)
class _Rows:
    """Rows that are sorted together; a level reads one half of their memory, writes the other."""

    op: ir.Operation
    size: int
    halves: Values

    @property
    def levels(self) -> int:
        return (self.size - 1).bit_length()

    def sort(self) -> None:
        """Merge runs level by level."""

        def level(number: ir.Value, _: Values) -> Values:
            width = loop_code.joined("shli", 1, number)
            source = loop_code.joined("andi", number, 1)

            def step(position: ir.Value, runs: Values) -> Values:
                return self._step(width, source, position, *runs)

            loop_code.loop(0, self.size, [loop_code.index(0)] * 2, step)
            return []

        loop_code.loop(0, self.levels, [], level)

    def _step(
        self, width: ir.Value, source: ir.Value, position: ir.Value, left: ir.Value, right: ir.Value
    ) -> Values:
        """Write the element at `position`: the next of the left run, or of the right one."""
        both = loop_code.joined("addi", width, width)
        within = loop_code.joined("andi", position, loop_code.joined("subi", both, 1))
        start = loop_code.joined("subi", position, within)
        middle, end = (
            loop_code.joined("minsi", loop_code.joined("addi", start, each), self.size)
            for each in (width, both)
        )
        begins = loop_code.less(within, 1)
        left, right = loop_code.chosen(begins, start, left), loop_code.chosen(begins, middle, right)
        last = self.size - 1
        compared = [
            loop_code.load(row, [source, loop_code.joined("minsi", each, last)])
            for row in self.halves
            for each in (right, left)
        ]
        (is_less,) = loop_code.applied(self.op, 0, compared)
        keeps = loop_code.joined(
            "ori", loop_code.negated(loop_code.less(right, end)), loop_code.negated(is_less)
        )
        takes_left = loop_code.joined("andi", loop_code.less(left, middle), keeps)
        target = loop_code.joined("xori", source, 1)
        for row, (from_right, from_left) in zip(
            self.halves, zip(compared[::2], compared[1::2], strict=True), strict=True
        ):
            loop_code.store(
                loop_code.chosen(takes_left, from_left, from_right), row, [target, position]
            )
        one = loop_code.chosen(takes_left, 1, 0)
        return [
            loop_code.joined("addi", left, one),
            loop_code.joined("addi", right, loop_code.joined("subi", 1, one)),
        ]
