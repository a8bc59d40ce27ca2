"""Take slices of what elements come from: slices, reversals, paddings and concatenations compose.

    %1 = reverse %x, dims = [0]             64 rows, split
    %2 = concatenate %1, %y, dim = 0
    %3 = slice %2 [0:4]

becomes

    %1 = slice %x [60:64]
    %3 = reverse %1, dims = [0]

so that only what is read in the end is moved between devices. Reversals of reversals and
concatenations of concatenations are one, slices that follow each other in one tensor are joined,
and what is joined is reversed at once. A slice of windows is windows over a slice, and so it is
with what is computed of each element of one tensor. Windows over a reversal, and what is computed
of each of its elements, are reversed afterwards; so is a padded one that is reversed again in the
end, as in a scan from the end. Where others read what is sliced, it is sliced anew only if that
makes nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import (
    constant_behind,
    constant_like,
    copy_onto,
    is_splat,
    resized,
)
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.mesh.annotation_ops import has_loops
from shard_dialect.ir.mesh.attributes import RULE
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.walk import walk
from shard_dialect.ops.stablehlo.attribute_reading import (
    integer,
    integers,
    pad_widths,
    windows_over,
    write_padding,
)
from shard_dialect.ops.stablehlo.reduction_rules import combiner
from shard_dialect.passes.framework.base import Pass, is_imported, needs
from shard_dialect.passes.propagate.annotated_results import replace_annotated
from shard_dialect.passes.propagate.compute_before_merges import is_annotated, is_elementwise

_CONCATENATE, _PAD = "stablehlo.concatenate", "stablehlo.pad"
_REVERSE, _SLICE = "stablehlo.reverse", "stablehlo.slice"
_SORT, _UPDATE = "stablehlo.sort", "stablehlo.dynamic_update_slice"
_WINDOW = "stablehlo.reduce_window"


MORE_READ = 1.25
"""How many more elements than results windows may read that are taken before, and not after."""


@dataclass(frozen=True, slots=True)
class Cut:
    """`count` elements of a dimension, `stride` apart, the first at `start`."""

    start: int
    count: int
    stride: int

    @property
    def last(self) -> int:
        """The index of the last element."""
        return self.start + (self.count - 1) * self.stride

    @property
    def end(self) -> int:
        """The index behind the last element; the start if there is none."""
        return max(self.start, self.last + 1)

    def within(self, begin: int, end: int) -> Cut:
        """Those from index `begin` to `end`, counted from `begin`.

        >>> Cut(1, 4, 3).within(3, 9)
        Cut(start=1, count=2, stride=3)
        """
        before = max(0, -((self.start - begin) // self.stride))
        count = max(0, min(self.count, -((self.start - end) // self.stride)) - before)
        return Cut(self.start + before * self.stride - begin, count, self.stride)

    def of(self, other: Cut) -> Cut:
        """These elements of `other`'s.

        >>> Cut(1, 2, 2).of(Cut(10, 5, 3))
        Cut(start=13, count=2, stride=6)
        """
        stride = self.stride * other.stride
        return Cut(other.start + self.start * other.stride, self.count, stride)


def whole(size: int) -> Cut:
    """All elements of a dimension."""
    return Cut(0, size, 1)


def cuts_of(op: ir.Operation) -> list[Cut]:
    """What a `stablehlo.slice` takes of each dimension."""
    starts, strides = integers(op, "start_indices"), integers(op, "strides")
    counts = op.results[0].type.shape
    return [Cut(*each) for each in zip(starts, counts, strides, strict=True)]


@needs(
    ops=(_CONCATENATE, _PAD, _REVERSE, _SLICE, _UPDATE), forms=("annotated",), keeps=(is_imported,)
)
@dataclass(frozen=True)
class ComposeSlices(Pass):
    """Take slices of what their elements come from, before these are moved or joined."""

    name = "compose-slices"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite functions in the annotated form."""
        for function in functions_of(module, "annotated"):
            composer = _Composer([])
            for op in walk(function):
                composer.queue += [op] if _is_known(op) else []
                composer.queue += composer.computed(op.results[0]) if op.name == _REVERSE else []
            composer.run()


def _is_known(op: ir.Operation) -> bool:
    """Whether sizes are known, and none is 0."""
    values = (*op.operands, *op.results) if op.name in _RULES else ()
    return bool(values) and all(
        value.type.has_static_shape and 0 not in value.type.shape for value in values
    )


def _parts(concatenate: ir.Operation, dim: int, cut: Cut) -> list[tuple[ir.Value, Cut]]:
    """The operands of a concatenation that have any of the elements, and which of theirs."""
    at, parts = 0, []
    for value in concatenate.operands:
        size = value.type.shape[dim]
        own = cut.within(at, at + size)
        at += size
        if own.count:
            parts.append((value, own))
    return parts


@dataclass
class _Composer:
    """The ops that may compose with what makes their operands, the last ones on top."""

    queue: list[ir.Operation]
    dropped: dict[ir.Value, ir.Operation] = field(default_factory=dict)
    """The ops to erase, users first, by result."""

    def run(self) -> None:
        while self.queue:
            op = self.queue.pop()
            if op.results[0] in self.dropped or has_loops(op) or RULE in op.attributes:
                continue
            with ir.InsertionPoint(op), op.location:
                value = _RULES.get(op.name, _Composer.elementwise)(self, op)
                if value is not None:
                    self._replace(op, value)
        for op in self.dropped.values():
            op.erase()

    def _replace(self, op: ir.Operation, value: ir.Value) -> None:
        value = replace_annotated(ir.OpResult(op.results[0]), value)
        self.queue += self._to_compose(value)
        unused = [op]
        while unused:
            each = unused.pop()
            self.dropped[each.results[0]] = each
            makers = [self._known_maker(operand, each) for operand in dict.fromkeys(each.operands)]
            unused += [maker for maker in makers if maker is not None and not self.readers(maker)]

    def _to_compose(self, value: ir.Value) -> list[ir.Operation]:
        """The ops that read a value, and may compose with what makes it."""
        users = [use.owner.operation for use in value.uses]
        return [each for each in users if _is_known(each)] + self.computed(value)

    def computed(self, value: ir.Value) -> list[ir.Operation]:
        """The ops that compute something of each element of a reversal."""
        if isinstance(value.owner, ir.Block) or value.owner.name != _REVERSE:
            return []
        users = [use.owner.operation for use in value.uses]
        return [each for each in users if each.name not in _RULES and is_elementwise(each)]

    def _maker(
        self, value: ir.Value, names: Container[str], reader: ir.Operation
    ) -> ir.Operation | None:
        """The op of these names, in the same block and without annotations, that makes a value."""
        if isinstance(value.owner, ir.Block) or value.owner.name not in names:
            return None
        op: ir.Operation = value.owner.operation
        is_near = op.block == reader.block  # in a loop it would be made anew in each turn
        return op if is_near and _is_known(op) and not is_annotated(op) else None

    def _known_maker(self, value: ir.Value, reader: ir.Operation) -> ir.Operation | None:
        """The op of a rule, or elementwise, that makes a value, as `_maker`."""
        maker = self._maker(value, _RULES, reader)
        if maker is not None or isinstance(value.owner, ir.Block):
            return maker
        op: ir.Operation = value.owner.operation
        return op if op.block == reader.block and is_elementwise(op) else None

    def readers(self, op: ir.Operation) -> list[ir.Operation]:
        """The ops that read the result, and are there to stay."""
        users = (use.owner.operation for use in op.results[0].uses)
        return [each for each in users if not each.results or each.results[0] not in self.dropped]

    def made(self, value: ir.Value) -> ir.Value:
        """The value, whose op is looked at again."""
        if not isinstance(value.owner, ir.Block) and _is_known(value.owner.operation):
            self.queue.append(value.owner.operation)
        return value

    def turned_back(self, op: ir.Operation) -> bool:
        """Whether all that becomes of the result is reversed in the end."""
        reached, found = [op], {op.results[0]}
        while reached:
            for reader in self.readers(reached.pop()):
                if reader.name == _REVERSE or (reader.results and reader.results[0] in found):
                    continue
                if reader.name not in _RULES and not is_elementwise(reader):
                    return False
                found.add(reader.results[0])
                reached.append(reader)
        return True

    def sliced(self, value: ir.Value, cuts: Sequence[Cut]) -> ir.Value:
        """These elements of a value."""
        lists = zip(*((each.start, each.count, each.stride) for each in cuts), strict=True)
        return self.made(hlo.slice_(value, *map(list, lists)))

    def slice(self, op: ir.Operation) -> ir.Value | None:
        """A slice of what another op makes, or of all."""
        value, cuts = op.operands[0], cuts_of(op)
        if value.type == op.results[0].type:
            return value
        source = self._maker(value, _SOURCES, op)
        if source is None:
            return self.slice_of_computed(op, cuts)
        return _SOURCES[source.name](self, source, cuts)

    def slice_of_computed(self, op: ir.Operation, cuts: Sequence[Cut]) -> ir.Value | None:
        """What is computed of these elements of one tensor, if the slice alone reads it."""
        value = op.operands[0]
        source = self._known_maker(value, op)
        if source is None or source.name in _RULES:
            return None
        tensors = {each for each in source.operands if each.type.rank and not _is_splat(each)}
        if len(tensors) != 1 or self.readers(source) != [op] or _is_narrower(source):
            return None
        counts = [each.count for each in cuts]
        of = {each: self.sliced(each, cuts) for each in tensors}
        for each in source.operands:
            if each.type.rank and each not in of:
                of[each] = constant_like(each, resized(each.type, counts))
        (result,) = copy_onto(source, [of.get(each, each) for each in source.operands]).results
        result.set_type(resized(value.type, counts))
        return result

    def slice_of_slice(self, source: ir.Operation, cuts: Sequence[Cut]) -> ir.Value | None:
        maker = source.operands[0].owner
        is_first = not isinstance(maker, ir.Block) and maker.name == _SORT
        # What several read is moved once; of a sort, the first elements of each shard are enough.
        if is_first or len(self.readers(source)) > 1:
            return None
        inner = cuts_of(source)
        return self.sliced(
            source.operands[0], [each.of(of) for each, of in zip(cuts, inner, strict=True)]
        )

    def slice_of_reverse(self, source: ir.Operation, cuts: Sequence[Cut]) -> ir.Value | None:
        if any(reader.name != _SLICE for reader in self.readers(source)):
            return None
        value, turned = source.operands[0], integers(source, "dimensions")
        mirrored = [
            Cut(size - 1 - each.last, each.count, each.stride) if dim in turned else each
            for dim, (each, size) in enumerate(zip(cuts, value.type.shape, strict=True))
        ]
        return self.made(_reversed(self.sliced(value, mirrored), turned))

    def slice_of_pad(self, source: ir.Operation, cuts: Sequence[Cut]) -> ir.Value | None:
        """Along the dimensions in which nothing of the padding is read."""
        value, fill = source.operands
        lows, highs, between = pad_widths(source)
        inner, outer = [], []
        for dim, (each, size) in enumerate(zip(cuts, value.type.shape, strict=True)):
            begin = each.start - lows[dim]
            if not between[dim] and begin >= 0 and each.last - lows[dim] < size:
                inner.append(Cut(begin, each.count, each.stride))
                outer.append(whole(each.count))
                lows[dim] = highs[dim] = 0
            else:
                inner.append(whole(size))
                outer.append(each)
        is_smaller = [each.count for each in inner] != list(value.type.shape)
        is_padded = any((*lows, *highs, *between))
        if is_padded and (not is_smaller or len(self.readers(source)) > 1):
            return None
        kept = self.sliced(value, inner)
        if is_padded:
            kept = self.made(hlo.pad(kept, fill, lows, highs, between))
        return self.sliced(kept, outer)

    def slice_of_concatenate(self, source: ir.Operation, cuts: Sequence[Cut]) -> ir.Value | None:
        """Of the operands that have any of the elements; of several only where it is shorter."""
        dim = integer(source, "dimension")
        is_cut = cuts[dim].count != source.results[0].type.shape[dim]
        parts, readers = _parts(source, dim, cuts[dim]), self.readers(source)
        if len(parts) > 1 and (len(readers) > 1 or not is_cut):
            return None
        # Slices of neighbours stay slices of one tensor, as those of a stencil on a padded image.
        others = [cuts_of(each)[dim] for each in readers if each.name == _SLICE]
        if any(len(_parts(source, dim, each)) > 1 for each in others) and len(readers) > 1:
            return None
        taken = [self.sliced(value, [*cuts[:dim], own, *cuts[dim + 1 :]]) for value, own in parts]
        return self.made(hlo.concatenate(taken, dim))

    def slice_of_window(self, source: ir.Operation, cuts: Sequence[Cut]) -> ir.Value | None:
        """The windows that are taken, over the elements that they read."""
        value, kept, padding = source.operands[0], [], []
        if len(self.readers(source)) > 1 or len(source.results) > 1:
            return None
        windows = windows_over(source)
        for cut, each, size in zip(cuts, windows, value.type.shape, strict=True):
            low = each.low - cut.start * each.stride
            spanned = (cut.count - 1) * cut.stride * each.stride + each.extent
            behind = spanned - low - size  # how far the last window reaches behind the end
            begin, end = max(0, -low), size + min(0, behind)
            if each.base > 1 or begin >= end:
                return None
            kept.append(Cut(begin, end - begin, 1))
            padding.append((max(0, low), max(0, behind)))
        # Where windows leave less than they read, what they leave is less to move.
        if prod(each.count for each in kept) > MORE_READ * prod(each.count for each in cuts):
            return None
        taken = copy_onto(source, [self.sliced(value, kept)])
        strides = [each.stride * cut.stride for each, cut in zip(windows, cuts, strict=True)]
        taken.attributes["window_strides"] = hlo.i64s(strides)
        write_padding(taken, padding)
        (result,) = taken.results
        result.set_type(resized(result.type, [each.count for each in cuts]))
        return self.made(result)

    def reverse(self, op: ir.Operation) -> ir.Value | None:
        """A reversal of a reversal, or of dimensions of one element."""
        value, dims = op.operands[0], set(integers(op, "dimensions"))
        turned = {dim for dim in dims if value.type.shape[dim] > 1}
        source = self._maker(value, (_REVERSE,), op)
        if source is not None:
            both = turned ^ set(integers(source, "dimensions"))
            if not both or len(self.readers(source)) == 1:
                return self.made(_reversed(source.operands[0], both))
        return _reversed(value, turned) if turned != dims else None

    def concatenate(self, op: ir.Operation) -> ir.Value | None:
        """A concatenation of concatenations, or of slices that follow each other."""
        dim, parts = integer(op, "dimension"), []
        for value in op.operands:
            inner = self._maker(value, (_CONCATENATE,), op)
            is_ours = inner is not None and integer(inner, "dimension") == dim
            if inner is not None and is_ours and all(each == op for each in self.readers(inner)):
                parts += list(inner.operands)
            else:
                parts.append(value)
        joined = [parts[0]]
        for value in parts[1:]:
            both = self._following(op, joined[-1], value, dim)
            joined = [*joined, value] if both is None else [*joined[:-1], both]
        turned, sources = self._reversals(op, joined)
        if turned:
            order = sources[::-1] if dim in turned else sources
            return self.made(_reversed(self.made(hlo.concatenate(order, dim)), turned))
        if joined == list(op.operands):
            return joined[0] if len(joined) == 1 else None
        return self.made(hlo.concatenate(joined, dim))

    def _reversals(
        self, op: ir.Operation, values: Sequence[ir.Value]
    ) -> tuple[set[int], list[ir.Value]]:
        """The dimensions that all values are reversed in, and what they are of; none if not all."""
        makers = [self._maker(value, (_REVERSE,), op) for value in values]
        own = [set() if each is None else set(integers(each, "dimensions")) for each in makers]
        turned, sources = set().union(*own), []
        for value, maker, dims in zip(values, makers, own, strict=True):
            long = {dim for dim in turned if value.type.shape[dim] > 1}
            if dims & long != long or (maker is not None and self.readers(maker) != [op]):
                return set(), []
            sources.append(value if maker is None else maker.operands[0])
        return turned, sources

    def _following(
        self, op: ir.Operation, first: ir.Value, second: ir.Value, dim: int
    ) -> ir.Value | None:
        """Two slices of one tensor, of which the second begins where the first ends, as one."""
        one, other = (self._maker(value, (_SLICE,), op) for value in (first, second))
        if one is None or other is None or one.operands[0] != other.operands[0]:
            return None
        cuts, following = cuts_of(one), cuts_of(other)
        a, b = cuts[dim], following[dim]
        cuts[dim] = Cut(a.start, a.count + b.count, a.stride)
        following[dim] = cuts[dim]
        if cuts != following or a.stride != b.stride or a.last + a.stride != b.start:
            return None
        return self.sliced(one.operands[0], cuts)

    def pad(self, op: ir.Operation) -> ir.Value | None:
        """A padding by nothing, or of a reversal where it is smaller than that or turned back."""
        value, fill = op.operands
        result = op.results[0]
        lows, highs, between = pad_widths(op)
        if value.type == result.type and not any(lows):
            return value
        source = self._maker(value, (_REVERSE,), op)
        if source is None or self.readers(source) != [op] or is_annotated(op):
            return None
        if prod(result.type.shape) > prod(value.type.shape) and not self.turned_back(op):
            return None
        turned = integers(source, "dimensions")
        for dim in turned:
            lows[dim], highs[dim] = highs[dim], lows[dim]
        padded = self.made(hlo.pad(source.operands[0], fill, lows, highs, between))
        return self.made(_reversed(padded, turned))

    def elementwise(self, op: ir.Operation) -> ir.Value | None:
        """What is computed of each element of reversals is reversed afterwards."""
        values = [each for each in dict.fromkeys(op.operands) if not _is_splat(each)]
        turned, sources = self._reversals(op, values)
        if not turned or (_is_wider(op) and not self.turned_back(op)):
            return None
        of = dict(zip(values, sources, strict=True))
        computed = copy_onto(op, [of.get(each, each) for each in op.operands])
        return self.made(_reversed(computed.results[0], turned))

    def window(self, op: ir.Operation) -> ir.Value | None:
        """Windows over a reversal: they are reversed afterwards, when there is less of them."""
        result = op.results[0]
        source = self._maker(op.operands[0], (_REVERSE,), op)
        if source is None or self.readers(source) != [op] or is_annotated(op):
            return None
        value, turned = source.operands[0], integers(source, "dimensions")
        windows, sizes = windows_over(op), value.type.shape
        is_less = prod(result.type.shape) <= prod(sizes)
        if not is_less or combiner(op, 1) is None or any(windows[dim].base > 1 for dim in turned):
            return None
        cuts, padding = [whole(size) for size in sizes], [(each.low, each.high) for each in windows]
        for dim in turned:
            each, size = windows[dim], sizes[dim]
            spanned = (result.type.shape[dim] - 1) * each.stride + each.extent
            behind = spanned - each.low - size  # how far the last window reaches behind the end
            cuts[dim] = Cut(max(0, -behind), size - max(0, -behind), 1)
            padding[dim] = max(0, behind), each.low
        kept = value if cuts == [whole(size) for size in sizes] else self.sliced(value, cuts)
        mirrored = copy_onto(op, [kept])
        write_padding(mirrored, padding)
        return self.made(_reversed(mirrored.results[0], turned))

    def update(self, op: ir.Operation) -> ir.Value | None:
        """An update of all."""
        return op.operands[1] if op.operands[1].type == op.results[0].type else None


def _is_wider(op: ir.Operation) -> bool:
    """Whether elements of the result take more bytes than those of each operand."""
    result, *operands = _itemsizes(op)
    return result > max(operands)


def _is_narrower(op: ir.Operation) -> bool:
    """Whether elements of the result take fewer bytes than those of some operand."""
    result, *operands = _itemsizes(op)
    return result < max(operands)


def _itemsizes(op: ir.Operation) -> list[int]:
    return [itemsize(value.type.element_type) for value in (*op.results, *op.operands)]


def _is_splat(value: ir.Value) -> bool:
    return is_splat(constant_behind(value))


def _reversed(value: ir.Value, dims: Iterable[int]) -> ir.Value:
    turned = sorted(dim for dim in dims if value.type.shape[dim] > 1)
    if not turned:
        return value
    return hlo.stablehlo_op("reverse", value.type, [value], {"dimensions": hlo.i64s(turned)})


_RULES: dict[str, Callable[[_Composer, ir.Operation], ir.Value | None]] = {
    _CONCATENATE: _Composer.concatenate,
    _PAD: _Composer.pad,
    _REVERSE: _Composer.reverse,
    _SLICE: _Composer.slice,
    _UPDATE: _Composer.update,
    _WINDOW: _Composer.window,
}
_SOURCES: dict[str, Callable[[_Composer, ir.Operation, Sequence[Cut]], ir.Value | None]] = {
    _CONCATENATE: _Composer.slice_of_concatenate,
    _PAD: _Composer.slice_of_pad,
    _REVERSE: _Composer.slice_of_reverse,
    _SLICE: _Composer.slice_of_slice,
    _WINDOW: _Composer.slice_of_window,
}
