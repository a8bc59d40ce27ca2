"""`stablehlo.gather` and `stablehlo.scatter`: one slice of the operand after the other.

    for each place of the slices, but for those in a slice:     # both have a slice for each index
      start = indices[place]
      gather:   result[place ...] = operand[start ...], where start is moved so that all is inside
      scatter:  operand[start ...] = join(operand[start ...], slices[place ...])

A scatter leaves out the elements of a slice that would be outside, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.expansions import code
from shard_dialect.passes.expansions.code import Carried, Number
from shard_dialect.rules.stablehlo.indexing import Numbers


@dataclass(frozen=True)
class _Dim:
    """A dimension of the operand, at one place of the slices: where a slice lies along it."""

    size: int
    length: int
    """Of the slice."""
    start: Number
    is_indexed: bool


@dataclass(frozen=True)
class _Slices:
    """The slices of an operand, at the places that indices give."""

    given: Numbers
    operand: ir.RankedTensorType
    indices: ir.Value
    sizes: tuple[int, ...]
    """Of the tensor of all slices."""
    lengths: tuple[int, ...]
    """Of one slice, along each dimension of the operand."""

    @property
    def batches(self) -> dict[int, tuple[int | None, int]]:
        return self.given.batches(self.sizes, tuple(self.indices.type.shape))

    @property
    def windows(self) -> dict[int, int]:
        """For each dimension of the slices that is one of the operand, which."""
        return self.given.windows(self.operand.rank)

    def counts(self) -> list[int]:
        """How many slices there are, along each of the other dimensions."""
        return [self.sizes[dim] for dim in self.batches]

    def dims(self, places: Sequence[ir.Value]) -> Iterator[_Dim]:
        """The operand's dimensions, for the slice at `places`."""
        starts: dict[int, Number] = {}
        for (dim, _), place in zip(self.batches.values(), places, strict=True):
            if dim is not None:
                starts[dim] = place
        for number, dim in enumerate(self.given.indexed):
            at: list[Number] = list(places)
            if self.given.index_vector < self.indices.type.rank:
                at.insert(self.given.index_vector, number)
            starts[dim] = code.as_index(code.element(self.indices, at))
        for dim, size in enumerate(self.operand.shape):
            is_indexed = dim in self.given.indexed
            yield _Dim(size, self.lengths[dim], starts.get(dim, 0), is_indexed)

    def at(
        self, places: Sequence[ir.Value], begins: Sequence[Number], lengths: Sequence[Number]
    ) -> tuple[list[Number], list[Number]]:
        """Offsets and sizes of a part of the slice at `places`, given by the operand's dims."""
        offsets: list[Number] = [0] * len(self.sizes)
        sizes: list[Number] = [1] * len(self.sizes)
        for dim, place in zip(self.batches, places, strict=True):
            offsets[dim] = place
        for dim, of_operand in self.windows.items():
            offsets[dim], sizes[dim] = begins[of_operand], lengths[of_operand]
        return offsets, sizes


def gather(op: ir.Operation) -> Sequence[ir.Value]:
    operand, indices = op.operands
    made = op.results[0].type
    if 0 in made.shape:
        return [build.empty(made).results[0]]
    lengths = tuple(op.attributes["slice_sizes"])
    shape = tuple(made.shape)
    slices = _Slices(Numbers.of_gather(op), operand.type, indices, shape, lengths)

    def write(places: list[ir.Value], carried: Carried) -> Carried:
        starts = [_moved_inside(dim) for dim in slices.dims(places)]
        found = code.part(operand, starts, lengths, list(slices.windows.values()))
        offsets, sizes = slices.at(places, [0] * len(lengths), lengths)
        return [code.with_part(carried[0], offsets, sizes, found)]

    return code.nest(slices.counts(), [build.empty(made).results[0]], write)


def _moved_inside(dim: _Dim) -> Number:
    if not dim.is_indexed:
        return dim.start
    return code.joined("minsi", code.joined("maxsi", dim.start, 0), dim.size - dim.length)


def scatter(op: ir.Operation) -> Sequence[ir.Value]:
    count = len(op.operands) // 2
    operands, indices = list(op.operands)[:count], op.operands[count]
    updates = list(op.operands)[count + 1 :]
    type_, shape = operands[0].type, tuple(updates[0].type.shape)
    if 0 in shape:
        return operands
    given = Numbers.of_scatter(op)
    window = {dim: shape[place] for place, dim in given.windows(type_.rank).items()}
    lengths = tuple(window.get(dim, 1) for dim in range(type_.rank))
    slices = _Slices(given, type_, indices, shape, lengths)

    def write(places: list[ir.Value], carried: Carried) -> Carried:
        inside = [_inside(dim) for dim in slices.dims(places)]
        begins, sizes = [each.begin for each in inside], [each.length for each in inside]
        of_slice = slices.at(places, [each.skipped for each in inside], sizes)

        def join() -> Carried:
            parts = [code.part(each, begins, sizes, sorted(window)) for each in carried]
            parts += [code.part(each, *of_slice, given.window) for each in updates]
            made = [code.applied(op, 0, parts, number) for number in range(count)]
            return [
                code.with_part(tensor, begins, sizes, value)
                for tensor, value in zip(carried, made, strict=True)
            ]

        conditions = [each.is_there for each in inside if each.is_there is not None]
        return code.only_if(code.all_of(conditions), carried, join) if conditions else join()

    return code.nest(slices.counts(), operands, write)


@dataclass(frozen=True)
class _Inside:
    """What of a slice is inside of the operand, along one dimension."""

    begin: Number
    length: Number
    skipped: Number = 0
    """How many elements of the slice are in front of the operand."""
    is_there: ir.Value | None = None
    """Whether anything is; `None`: all of it."""


def _inside(dim: _Dim) -> _Inside:
    if not dim.is_indexed:
        return _Inside(dim.start, dim.length)
    if dim.length == 1:
        return _Inside(dim.start, 1, 0, code.is_inside(dim.start, dim.size))
    begin = code.joined("maxsi", dim.start, 0)
    end = code.joined("minsi", code.joined("addi", dim.start, dim.length), dim.size)
    length = code.joined("subi", end, begin)
    return _Inside(begin, length, code.joined("subi", begin, dim.start), code.less(0, length))
