"""Expand `stablehlo.sort` to a merge sort of each row: runs of 1, 2, 4, ... elements are merged.

    for level in 0 .. ceil(log2(n)):            # runs of 2^level elements are sorted
      for place in 0 .. n:                      # the next of the left run, or of the right one
        if the left run is at its end, or row[right] is less than row[left]:
          made[place] = row[right++]
        else:
          made[place] = row[left++]

The sort is stable. Where only the first k of many elements are read, as of `chlo.top_k`, a row of k
elements is kept in order instead:

    for place in 0 .. n:
      if row[place] is less than kept[k - 1]:
        insert it, behind those that are equal; the last one drops out
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ops.stablehlo.attribute_reading import sorted_dim
from shard_dialect.passes.lower.expansions import loop_code
from shard_dialect.passes.lower.expansions.loop_code import Number, Values


def sort(op: ir.Operation) -> Sequence[ir.Value]:
    """The sorted operands, by loops; or their first elements, where no others are read."""
    operands = list(op.operands)
    shape = list(operands[0].type.shape)
    dim = sorted_dim(op)
    if shape[dim] < 2 or 0 in shape:
        return operands
    kept = _kept(op, dim, shape[dim])
    is_few = kept < shape[dim]
    made = [kept if each == dim else size for each, size in enumerate(shape)]
    sources = list(map(build.buffer_of, operands))
    results = [loop_code.allocated(build.resized(each.type, made)) for each in operands]
    rows: _First | _Rows = (
        _First(op, shape[dim], _buffers(operands, kept))
        if is_few
        else _Rows(op, shape[dim], _buffers(operands, shape[dim], 2))
    )

    def write(indices: Values, _: Values) -> Values:
        def at(index: Number) -> list[Number]:
            return [index if each == dim else other for each, other in enumerate(indices)]

        def put(index: ir.Value, _: Values) -> Values:
            for value, into in zip(rows.sorted_at(index), results, strict=True):
                loop_code.store(value, into, at(index))
            return []

        rows.sort(lambda index: [loop_code.load(each, at(index)) for each in sources])
        loop_code.loop(0, kept, [], put)
        return []

    loop_code.nest([1 if each == dim else count for each, count in enumerate(shape)], write)
    values = [build.tensor_of(each) for each in results]
    if is_few:
        for old, new in zip(op.results, values, strict=True):
            build.redirect(list(old.uses), new)
    return values


_FEW, _MANY = 64, 4
"""The most elements that are kept in order, of as many times more.

Each that is inserted is compared with all of them."""


def _kept(op: ir.Operation, dim: int, size: int) -> int:
    """How many of `size` elements along `dim` are kept: all, unless slices read only the first."""
    first = 0
    for use in (use for result in op.results for use in result.uses):
        reader = use.owner.operation
        if reader.name != "tensor.extract_slice":
            return size
        offset, read, stride = (
            reader.attributes[f"static_{name}"][dim] for name in ("offsets", "sizes", "strides")
        )
        if offset or stride != 1 or read < 0:
            return size
        first = max(first, read)
    return first if 0 < first <= _FEW and _MANY * first <= size else size


def _buffers(operands: Sequence[ir.Value], size: int, *more: int) -> Values:
    return [loop_code.allocated(build.resized(each.type, [size]), *more) for each in operands]


Read: TypeAlias = Callable[[ir.Value], Values]
"""The elements at an index of a row, one of each operand."""


@dataclass(frozen=True)
class _First:
    """The first elements of rows, in order."""

    op: ir.Operation
    size: int
    kept: Values

    def sort(self, read: Read) -> None:
        """Keep the first elements of a row."""
        count = self.kept[0].type.shape[0]

        def begin(index: ir.Value, _: Values) -> Values:
            for value, row in zip(self._inserted(read(index), index), self.kept, strict=True):
                loop_code.store(value, row, [index])
            return []

        def step(index: ir.Value, _: Values) -> Values:
            new = read(index)

            def insert() -> Values:
                self._inserted(new, count)
                return []

            loop_code.only_if(
                self._is_before(new, self.sorted_at(loop_code.index(count - 1))), insert
            )
            return []

        loop_code.loop(0, count, [], begin)
        loop_code.loop(count, self.size, [], step)

    def sorted_at(self, index: ir.Value) -> Values:
        """The elements at an index, once all are sorted."""
        return [loop_code.load(row, [index]) for row in self.kept]

    def _is_before(self, a: Values, b: Values) -> ir.Value:
        pairs = [each for pair in zip(a, b, strict=True) for each in pair]
        return loop_code.applied(self.op, 0, pairs)[0]

    def _inserted(self, new: Values, count: Number) -> Values:
        """Insert elements into the first `count`, behind equal ones; return what drops out."""

        def step(index: ir.Value, carried: Values) -> Values:
            was_inserted, *now = carried
            old = self.sorted_at(index)
            # Behind the place all move on, also those that are equal to the next one.
            moves = loop_code.joined("ori", was_inserted, self._is_before(now, old))
            for mine, other, row in zip(now, old, self.kept, strict=True):
                loop_code.store(loop_code.chosen(moves, mine, other), row, [index])
            return [
                moves,
                *(loop_code.chosen(moves, b, a) for a, b in zip(now, old, strict=True)),
            ]

        return loop_code.loop(0, count, [loop_code.bit(False), *new], step)[1:]


@dataclass(frozen=True)
class _Rows:
    """Rows that are sorted together; a level reads one half of their memory, writes the other."""

    op: ir.Operation
    size: int
    halves: Values

    @property
    def levels(self) -> int:
        return (self.size - 1).bit_length()

    def sorted_at(self, index: ir.Value) -> Values:
        """The elements at an index, once all are sorted."""
        return [loop_code.load(row, [self.levels % 2, index]) for row in self.halves]

    def sort(self, read: Read) -> None:
        """Sort a row: merge runs level by level."""

        def take(index: ir.Value, _: Values) -> Values:
            for value, row in zip(read(index), self.halves, strict=True):
                loop_code.store(value, row, [0, index])
            return []

        def level(number: ir.Value, _: Values) -> Values:
            width = loop_code.joined("shli", 1, number)
            source = loop_code.joined("andi", number, 1)

            def step(position: ir.Value, runs: Values) -> Values:
                return self._step(width, source, position, *runs)

            loop_code.loop(0, self.size, [loop_code.index(0)] * 2, step)
            return []

        loop_code.loop(0, self.size, [], take)
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
