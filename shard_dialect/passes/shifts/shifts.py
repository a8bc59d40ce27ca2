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
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import create, resized
from shard_dialect.ir.building.reductions import reduction_with_identity
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ops.stablehlo.attribute_reading import integer, integers
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
    if any(stride != 1 for stride in integers(op, "strides")):
        return None
    of = _operand_view(op.operands[0], stops)
    bounds = (integers(op, name) for name in ("start_indices", "limit_indices"))
    return replace(of, dims=tuple(map(cut, of.dims, *bounds)))


def _pad(op: ir.Operation, stops: AbstractSet[ir.Value]) -> View | None:
    of, fill = _operand_view(op.operands[0], stops), op.operands[1]
    if any(integers(op, "interior_padding")) or (of.fill is not None and of.fill != fill):
        return None
    dims = []
    for spans, low, high in zip(
        of.dims,
        integers(op, "edge_padding_low"),
        integers(op, "edge_padding_high"),
        strict=True,
    ):
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
    has only `dim`; `fill` is what padding holds.
    """

    dim: int
    sharding: ir.Attribute
    edge_sharding: ir.Attribute
    line_sharding: ir.Attribute
    fill: ir.Value | None

    def shifted(self, value: ir.Value, shifts: Shifts) -> ir.Value:
        """`value` shifted, of the same type."""
        if shifts.base is None:
            result = self._filled(value.type)
        elif shifts.is_rolled:
            along = {"tensor_axis": _number(self.dim), "by": _number(shifts.base)}
            return self._create("mesh.roll", value.type, [value], along)
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
            begins, ends = [0] * len(shape), list(shape)
            begins[self.dim], ends[self.dim] = span.start, span.start + span.size
            bounds = {"start_indices": begins, "limit_indices": ends, "strides": [1] * len(shape)}
            parts.append(self._create("stablehlo.slice", type_, [value], _lists(bounds)))
        if len(parts) == 1:
            return parts[0]
        shape[self.dim] = sum(span.size for span in spans)
        along = {"dimension": _number(self.dim)}
        return self._create("stablehlo.concatenate", resized(value.type, shape), parts, along)

    def shifted_by(self, value: ir.Value, by: int) -> ir.Value:
        """`value` with its elements `by` further; the fill, or zero, where none come from."""
        if not by:
            return value
        ends = [[0] * value.type.rank for _ in range(3)]
        ends[0][self.dim], ends[1][self.dim] = by, -by
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
        padding = self._padding_element(value.type)
        attributes = _lists(dict(zip(names, ends, strict=True)))
        return self._create("stablehlo.pad", value.type, [value, padding], attributes)

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
        none = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
        return self._create("stablehlo.broadcast_in_dim", type_, [self.fill], none)

    def filled_outside(self, value: ir.Value, begin: int, end: int) -> ir.Value:
        """`value` from `begin` to `end`, and the fill elsewhere."""
        return self._select(Placed(Span(0, end - begin), begin), value, self._filled(value.type))

    def _select(self, placed: Placed, inside: ir.Value, outside: ir.Value) -> ir.Value:
        """`inside` where `placed` is, `outside` elsewhere."""
        where = self.between(outside.type.shape, placed.at, placed.at + placed.span.size)
        if where is None:
            return inside
        return self._create("stablehlo.select", outside.type, [where, inside, outside])

    def between(
        self, shape: Sequence[int], begin: int, end: int, also: ir.Value | None = None
    ) -> ir.Value | None:
        """A mask of `shape`: the indices from `begin` to `end` where `also` is; `None`: all."""
        conditions = [("GE", begin)] if begin > 0 else []
        conditions += [("LT", end)] if end < shape[self.dim] else []
        if not conditions:
            return also
        # The comparisons are on one dimension alone, and repeated along the others.
        line = [shape[self.dim]]
        counted = ir.RankedTensorType.get(line, ir.IntegerType.get_signless(64))
        at = self._along("stablehlo.iota", counted, [], iota_dimension=_number(0))
        where = None
        for direction, number in conditions:
            each = self._compare(at, direction, number)
            if where is not None:
                each = self._along("stablehlo.and", each.type, [where, each])
            where = each
        assert where is not None, "there are conditions"
        type_ = ir.RankedTensorType.get(list(shape), where.type.element_type)
        along = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([self.dim])}
        where = self._create("stablehlo.broadcast_in_dim", type_, [where], along)
        return self._create("stablehlo.and", type_, [also, where]) if also is not None else where

    def _compare(self, at: ir.Value, direction: str, number: int) -> ir.Value:
        bits = ir.RankedTensorType.get(at.type.shape, ir.IntegerType.get_signless(1))
        than = self._along(
            "stablehlo.broadcast_in_dim",
            at.type,
            [hlo.number(number, ir.RankedTensorType.get([], at.type.element_type))],
            broadcast_dimensions=ir.DenseI64ArrayAttr.get([]),
        )
        kind = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
        return self._along("stablehlo.compare", bits, [at, than], comparison_direction=kind)

    def _update(self, placed: Placed, value: ir.Value, result: ir.Value) -> ir.Value:
        """`result` with the elements of `value` in `placed`, which every device gets."""
        shape = list(value.type.shape)
        shape[self.dim] = placed.span.size
        assert placed.span.start is not None, "padding is no edge"
        edge = create(
            "stablehlo.dynamic_slice",
            [resized(value.type, shape)],
            [value, *self._indices(value.type.rank, placed.span.start)],
            _lists({"slice_sizes": shape}) | {SHARDINGS: ir.ArrayAttr.get([self.edge_sharding])},
        ).results[0]
        indices = self._indices(value.type.rank, placed.at)
        return self._create("stablehlo.dynamic_update_slice", result.type, [result, edge, *indices])

    def _indices(self, rank: int, at: int) -> list[ir.Value]:
        scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(64))
        zero, index = hlo.number(0, scalar), hlo.number(at, scalar)
        return [index if dim == self.dim else zero for dim in range(rank)]

    def _along(
        self, name: str, type_: ir.Type, operands: Sequence[ir.Value], **attributes: ir.Attribute
    ) -> ir.Value:
        """An op on tensors of the one dimension."""
        return self._create(name, type_, operands, attributes, self.line_sharding)

    def _create(
        self,
        name: str,
        type_: ir.Type,
        operands: Sequence[ir.Value],
        attributes: dict[str, ir.Attribute] | None = None,
        sharding: ir.Attribute | None = None,
    ) -> ir.Value:
        listed = {SHARDINGS: ir.ArrayAttr.get([sharding or self.sharding])}
        return create(name, [type_], operands, (attributes or {}) | listed).results[0]


def may_shift(type_: ir.RankedTensorType) -> bool:
    """Whether elements of the type can be added up, as edges are."""
    return is_additive(type_.element_type)


def is_identity(fill: ir.Value | None) -> bool:
    """Whether a padding value is the identity of a reduction, which halos can hold."""
    return fill is not None and reduction_with_identity(fill) is not None


def _lists(lists: dict[str, list[int]]) -> dict[str, ir.Attribute]:
    return {name: ir.DenseI64ArrayAttr.get(each) for name, each in lists.items()}


def _number(number: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
