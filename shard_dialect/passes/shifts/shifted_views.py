"""What slices, paddings and concatenations of one tensor are, dimension by dimension.

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
from shard_dialect.rules.stablehlo.attribute_reading import integer, integers

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
