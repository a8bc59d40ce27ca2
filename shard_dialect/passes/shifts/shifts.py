"""Shifts of a tensor along a split dimension, and the ops that make them.

Of 64 elements in shards of 16 the spans 63:64, 0:63 are

    base      shifted by 1: 0:63 at index 1
    edges     63:64 at index 0, which is 63 elements away

Slices, paddings and concatenations of one tensor are views of it: lists of spans, by dimension.

    %a = slice %x [63:64]
    %b = slice %x [0:63]
    %c = concatenate %a, %b         a view of %x with the spans 63:64 and 0:63
    %d = pad %x, %f, low 1, high 1
    %e = slice %d [0:64]            a view of %x with a span of one %f, then 0:63
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import create_value, resized
from shard_dialect.ir.building.reductions import reduction_with_identity
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ops.stablehlo.attribute_reading import (
    integer,
    pad_widths,
    slice_bounds,
)
from shard_dialect.ops.stablehlo.reduction_rules import is_additive

VIEWS = frozenset({"stablehlo.slice", "stablehlo.pad", "stablehlo.concatenate"})
"""The ops that make views."""


@dataclass(frozen=True, slots=True)
class Span:
    """`size` elements of a dimension from index `start` on; `None`: padding.

    >>> Span(2, 5).cut(1, 3)
    Span(start=3, size=2)
    """

    start: int | None
    size: int

    def cut(self, begin: int, end: int) -> Span:
        """The elements of this span from `begin` to `end`."""
        return Span(None if self.start is None else self.start + begin, end - begin)


Spans = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A tensor whose dimension `d` is the spans `dims[d]` of `root`; padding holds `fill`."""

    root: ir.Value
    dims: tuple[Spans, ...]
    fill: ir.Value | None = None

    def is_changed(self, dim: int) -> bool:
        """Whether dimension `dim` is not the root's."""
        return self.dims[dim] != (Span(0, self.root.type.shape[dim]),)


def merged(spans: Sequence[Span]) -> Spans:
    """The same spans without empty ones, those joined that follow each other.

    >>> merged([Span(0, 2), Span(2, 3), Span(None, 0)])
    (Span(start=0, size=5),)
    """
    result: list[Span] = []
    for span in spans:
        last = result[-1] if result else None
        if not span.size:
            continue
        if last is not None and _follows(last, span):
            result[-1] = Span(last.start, last.size + span.size)
        else:
            result.append(span)
    return tuple(result)


def _follows(last: Span, span: Span) -> bool:
    if last.start is None or span.start is None:
        return last.start == span.start
    return last.start + last.size == span.start


def cut(spans: Spans, begin: int, end: int) -> Spans:
    """The elements from index `begin` to `end` of spans in a row.

    >>> cut((Span(None, 1), Span(0, 4)), 0, 3)
    (Span(start=None, size=1), Span(start=0, size=2))
    """
    result, at = [], 0
    for span in spans:
        first, last = max(begin - at, 0), min(end - at, span.size)
        if first < last:
            result.append(span.cut(first, last))
        at += span.size
    return merged(result)


def view_of(value: ir.Value, stops: AbstractSet[ir.Value] = frozenset()) -> View:
    """The view that `value` is; of itself, if no op of `VIEWS` makes it.

    No view goes through the results of other ops in `stops`.
    """
    owner = value.owner
    itself = View(value, tuple((Span(0, size),) for size in value.type.shape))
    if isinstance(owner, ir.Block) or owner.operation.name not in VIEWS:
        return itself
    if not all(type(dim) is int and dim > 0 for dim in value.type.shape):
        return itself
    return _READERS[owner.operation.name](owner.operation, stops) or itself


def _operand_view(value: ir.Value, stops: AbstractSet[ir.Value]) -> View:
    if value in stops:
        return View(value, tuple((Span(0, size),) for size in value.type.shape))
    return view_of(value, stops)


def _slice(op: ir.Operation, stops: AbstractSet[ir.Value]) -> View | None:
    starts, ends, strides = slice_bounds(op)
    if any(stride != 1 for stride in strides):
        return None
    of = _operand_view(op.operands[0], stops)
    return replace(of, dims=tuple(map(cut, of.dims, starts, ends)))


def _pad(op: ir.Operation, stops: AbstractSet[ir.Value]) -> View | None:
    of, fill = _operand_view(op.operands[0], stops), op.operands[1]
    lows, highs, between = pad_widths(op)
    if any(between) or (of.fill is not None and of.fill != fill):
        return None
    dims = []
    for spans, low, high in zip(of.dims, lows, highs, strict=True):
        size = sum(span.size for span in spans)
        kept = cut(spans, max(-low, 0), size - max(-high, 0))
        dims.append(merged([Span(None, max(low, 0)), *kept, Span(None, max(high, 0))]))
    return View(of.root, tuple(dims), fill)


def _concatenate(op: ir.Operation, stops: AbstractSet[ir.Value]) -> View | None:
    dim, views = (
        integer(op, "dimension"),
        [_operand_view(operand, stops) for operand in op.operands],
    )
    fills = {view.fill for view in views if view.fill is not None}
    first = views[0]
    for view in views:
        aligned = (*view.dims[:dim], first.dims[dim], *view.dims[dim + 1 :])
        if view.root != first.root or len(fills) > 1 or aligned != first.dims:
            return None
    joined = merged([span for view in views for span in view.dims[dim]])
    dims = (*first.dims[:dim], joined, *first.dims[dim + 1 :])
    return View(first.root, dims, next(iter(fills), None))


_READERS = {
    "stablehlo.slice": _slice,
    "stablehlo.pad": _pad,
    "stablehlo.concatenate": _concatenate,
}


@dataclass(frozen=True, slots=True)
class Placed:
    """A span that a result has from index `at` on."""

    span: Span
    at: int

    @property
    def shift(self) -> int:
        """How far the elements move: positive to higher indices."""
        assert self.span.start is not None, "padding does not move"
        return self.at - self.span.start


@dataclass(frozen=True, slots=True)
class Shifts:
    """The tensor shifted by `base`; `near` and `padding` replace parts of it, then `edges`.

    If `base` is `None`, edges replace parts of a tensor that is all padding. If the tensor is
    rolled, elements that are shifted out at one end come back at the other.
    """

    base: int | None
    near: tuple[Placed, ...] = ()
    edges: tuple[Placed, ...] = ()
    padding: tuple[Placed, ...] = ()
    is_rolled: bool = False

    @property
    def moved(self) -> int:
        """How many elements a device sends: halos, and edges, which are added up, twice."""
        near = {self.base or 0, *(each.shift for each in self.near)}
        return sum(map(abs, near)) + 2 * sum(each.span.size for each in self.edges)


def shifts_of(spans: Spans, size: int, devices: int) -> Shifts | None:
    """How to make a dimension of `spans` from shifts of one of `size` elements on `devices`.

    `None` if that would move more than a quarter of a shard, but of rolled ones a shard at most
    moves, and as much where two devices gather them.

    >>> shifts_of((Span(63, 1), Span(0, 63)), 64, 4)
    Shifts(base=1, near=(), edges=(), padding=(), is_rolled=True)
    """
    shard = -(-size // devices)
    by = _roll(spans, size) if size % devices == 0 else None
    if by is not None:
        return Shifts(by, is_rolled=True)
    placed, at = [], 0
    for span in spans:
        placed.append(Placed(span, at))
        at += span.size
    read = [each for each in placed if each.span.start is not None]
    near = [each for each in read if 4 * abs(each.shift) <= shard]
    if len(read) == len(placed) and not near:
        return None
    base = max(near, key=lambda each: each.span.size).shift if near else None
    edges = [each for each in read if each not in near]
    others = tuple(each for each in near if each.shift != base)
    padding = tuple(each for each in placed if each.span.start is None)
    shifts = Shifts(base, others, tuple(edges), padding)
    return shifts if 4 * shifts.moved <= shard else None


def _roll(spans: Spans, size: int) -> int | None:
    """How far the elements of a dimension are rolled, the shorter way; `None` if they are not."""
    if len(spans) != 2:
        return None
    first, second = spans
    if second.start != 0 or first.start != second.size or first.size + second.size != size:
        return None
    return first.size if 2 * first.size <= size else first.size - size


@dataclass(frozen=True, slots=True)
class ShiftBuilder:
    """Creates the ops along `dim`, at the insertion point, for tensors of sharding `sharding`.

    `edge_sharding` is the sharding without a split of `dim`, `line_sharding` that of a tensor which
    has only `dim`, `sum_sharding` of one without it; `fill` is what padding holds.
    """

    dim: int
    sharding: ir.Attribute
    edge_sharding: ir.Attribute
    line_sharding: ir.Attribute
    sum_sharding: ir.Attribute
    fill: ir.Value | None

    def shifted(self, value: ir.Value, shifts: Shifts) -> ir.Value:
        """`value` shifted, of the same type."""
        if shifts.base is None:
            result = self._filled(value.type)
        elif shifts.is_rolled:
            along = {"tensor_axis": build.i64(self.dim), "by": build.i64(shifts.base)}
            return self._annotated(create_value("mesh.roll", value.type, [value], along))
        else:
            result = self.shifted_by(value, shifts.base)
        for each in shifts.near:
            result = self._select(each, self.shifted_by(value, each.shift), result)
        for each in shifts.padding:
            if not self._is_padded(each, shifts.base, value.type.shape[self.dim]):
                result = self._select(each, self._filled(value.type), result)
        for each in shifts.edges:
            result = self._update(each, value, result)
        return result

    def joined(self, value: ir.Value, spans: Spans) -> ir.Value:
        """The spans of `value` in a row, where the dimension is not split."""
        parts = []
        for span in spans:
            shape = list(value.type.shape)
            shape[self.dim] = span.size
            type_ = resized(value.type, shape)
            if span.start is None:
                parts.append(self._filled(type_))
                continue
            starts, limits = [0] * len(shape), list(shape)
            starts[self.dim], limits[self.dim] = span.start, span.start + span.size
            lists = (starts, limits, [1] * len(shape))
            names = ("start_indices", "limit_indices", "strides")
            bounds = dict(zip(names, map(hlo.i64s, lists), strict=True))
            parts.append(self._annotated(hlo.stablehlo_op("slice", type_, [value], bounds)))
        return parts[0] if len(parts) == 1 else self._annotated(hlo.concatenate(parts, self.dim))

    def shifted_by(self, value: ir.Value, by: int) -> ir.Value:
        """`value` with its elements `by` further; the fill, or zero, where none come from."""
        if not by:
            return value
        low, high, between = ([0] * value.type.rank for _ in range(3))
        low[self.dim], high[self.dim] = by, -by
        padding = self._padding_element(value.type)
        return self._annotated(hlo.pad(value, padding, low, high, between))

    def _padding_element(self, type_: ir.RankedTensorType) -> ir.Value:
        """The fill if it is an identity, which halos can hold; else zero."""
        if self.fill is not None and is_identity(self.fill):
            return self.fill
        return hlo.number(0, ir.RankedTensorType.get([], type_.element_type))

    def _is_padded(self, placed: Placed, base: int | None, size: int) -> bool:
        """Whether the shift by `base` has the fill there already."""
        if base is None:
            return True
        if not is_identity(self.fill):
            return False
        first, end = placed.at - base, placed.at - base + placed.span.size
        return end <= 0 or first >= size

    def _filled(self, type_: ir.RankedTensorType) -> ir.Value:
        assert self.fill is not None, "padding has an element to pad with"
        return self._annotated(hlo.broadcast(self.fill, type_.shape))

    def filled_outside(self, value: ir.Value, begin: int, end: int) -> ir.Value:
        """`value` from `begin` to `end`, and the fill elsewhere."""
        return self._select(Placed(Span(0, end - begin), begin), value, self._filled(value.type))

    def _select(self, placed: Placed, inside: ir.Value, outside: ir.Value) -> ir.Value:
        """`inside` where `placed` is, `outside` elsewhere."""
        where = self.between(outside.type.shape, placed.at, placed.at + placed.span.size)
        if where is None:
            return inside
        return self._annotated(hlo.select(where, inside, outside))

    def between(
        self, shape: Sequence[int], begin: int, end: int, also: ir.Value | None = None
    ) -> ir.Value | None:
        """A mask of `shape`: the indices from `begin` to `end` where `also` is; `None`: all."""
        conditions = [("GE", begin)] if begin > 0 else []
        conditions += [("LT", end)] if end < shape[self.dim] else []
        if not conditions:
            return also
        # The comparisons are on one dimension alone, and repeated along the others.
        at = self._along(hlo.iota([shape[self.dim]], 0))
        where = None
        for direction, number in conditions:
            than = self._along(hlo.broadcast(hlo.index(number), at.type.shape))
            each = self._along(hlo.compare(direction, at, than))
            where = each if where is None else self._along(hlo.elementwise("and", where, each))
        assert where is not None, "there are conditions"
        type_, along = hlo.tensor(shape, build.integer(1)), hlo.i64s([self.dim])
        attributes = {"broadcast_dimensions": along}
        where = self._annotated(hlo.stablehlo_op("broadcast_in_dim", type_, [where], attributes))
        return where if also is None else self._annotated(hlo.elementwise("and", also, where))

    def _update(self, placed: Placed, value: ir.Value, result: ir.Value) -> ir.Value:
        """`result` with the elements of `value` in `placed`, which every device gets."""
        assert placed.span.start is not None, "padding is no edge"
        edge = self._edge(value, placed.span.start, placed.span.size)
        starts = self._indices(value.type.rank, placed.at)
        return self._annotated(hlo.dynamic_update(result, edge, starts))

    def _edge(self, value: ir.Value, start: int, size: int) -> ir.Value:
        """`size` elements of `value`, which every device gets."""
        shape = list(value.type.shape)
        shape[self.dim] = size
        edge = hlo.dynamic_slice(value, self._indices(len(shape), start), shape)
        return self._annotated(edge, self.edge_sharding)

    def end_repeated(self, value: ir.Value, count: int) -> ir.Value:
        """`value`, and its last element `count` times more."""
        rank, size = value.type.rank, value.type.shape[self.dim]
        none, more = [0] * rank, [count if dim == self.dim else 0 for dim in range(rank)]
        zero = hlo.number(0, ir.RankedTensorType.get([], value.type.element_type))
        longer = self._annotated(hlo.pad(value, zero, none, more, none))
        last = hlo.broadcast(self._edge(value, size - 1, 1), longer.type.shape, range(rank))
        return self._select(Placed(Span(None, count), size), self._annotated(last), longer)

    def added_to_end(self, value: ir.Value, size: int) -> ir.Value:
        """The first `size` elements, to the last of which those behind it are added."""
        shape = value.type.shape
        count = shape[self.dim] - size
        zeros = self._annotated(hlo.number(0, value.type))
        behind = self._select(Placed(Span(None, count), size), value, zeros)
        zero = hlo.number(0, ir.RankedTensorType.get([], value.type.element_type))
        others = [dim for dim in range(len(shape)) if dim != self.dim]
        total = self._annotated(hlo.reduce(behind, "add", zero, [self.dim]), self.sum_sharding)
        kept = self._annotated(hlo.slice_along(value, self.dim, 0, size))
        added = self._annotated(hlo.broadcast(total, kept.type.shape, others))
        both = self._annotated(hlo.elementwise("add", kept, added))
        return self._select(Placed(Span(None, 1), size - 1), both, kept)

    def _indices(self, rank: int, at: int) -> list[ir.Value]:
        zero, index = hlo.index(0), hlo.index(at)
        return [index if dim == self.dim else zero for dim in range(rank)]

    def _along(self, value: ir.Value) -> ir.Value:
        """The result of an op on tensors of the one dimension, which is annotated."""
        return self._annotated(value, self.line_sharding)

    def _annotated(self, value: ir.Value, sharding: ir.Attribute | None = None) -> ir.Value:
        """The result of the op just made, which is annotated."""
        value.owner.attributes[SHARDINGS] = ir.ArrayAttr.get([sharding or self.sharding])
        return value


def may_shift(type_: ir.RankedTensorType) -> bool:
    """Whether elements of the type can be added up, as edges are."""
    return is_additive(type_.element_type)


def is_identity(fill: ir.Value | None) -> bool:
    """Whether a padding value is the identity of a reduction, which halos can hold."""
    return fill is not None and reduction_with_identity(fill) is not None
