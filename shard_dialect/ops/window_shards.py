"""Window ops: the windows that their attributes describe, and the parts of shards that they read.

A concatenation on shards is one, too: each device selects the elements of its shard of the result.

    %r = concat(%x, %y)           of 5 and 3 elements: the second device has elements 4 to 7
    %a, %b                        %x and %y with halos, each as large as the shard of the result
    %r = where index < 1 %a, elsewhere %b

What lies further away is exchanged, in rounds of boxes:

    rounds: keep [0:3]; device 1 sends its first element to device 0, which puts it at 3
      becomes, on all devices
    %whole = zeros, with room behind what is read
    %kept = extract %x[0] [3]                 %0 = insert %kept into %whole[0]
    %sent = extract %x[0] [1]
    %got = "mesh.collective_permute"(%sent) {permutation = [-1, 0]}
    %1 = insert %got into %0[%at]             at 3, or in the room
    %read = extract %1[0] [4]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from shard_dialect.collectives import NOBODY
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.building.loops_and_masks import as_index, switch_at
from shard_dialect.ir.building.reductions import identity_tensor, identity_value
from shard_dialect.model import Reduction, ShardingRule, Window, Windows
from shard_dialect.model.rule import Role
from shard_dialect.model.windows import Reading, Round
from shard_dialect.ops.factors import Factors, Kind, Query
from shard_dialect.ops.partitioned_op import PartitionedOp, Shard, device_indices


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """The windows along one dimension.

    A window has `size` elements, `dilation` positions apart. Windows begin `stride` positions
    apart, and elements of the operand are `base` positions apart. `low` and `high` are the padding
    at the ends, negative where the ends of the operand are dropped.
    """

    size: int
    stride: int
    dilation: int
    base: int
    low: int
    high: int

    @property
    def is_padded(self) -> bool:
        """Whether windows read more or less than the elements."""
        return self.low != 0 or self.high != 0

    @property
    def are_elements(self) -> bool:
        """Whether each window is one element, and each element has one window."""
        return self.size == 1 and self.stride == 1 and self.base == 1 and not self.is_padded

    @property
    def extent(self) -> int:
        """The positions from the first element of a window to its last."""
        return (self.size - 1) * self.dilation + 1

    def run_over(self, size: int) -> bool:
        """Whether windows reach from each of `size` elements to the first, or each to the last.

        >>> WindowDimension(4, stride=1, dilation=1, base=1, low=3, high=0).run_over(4)
        True
        """
        ends = (self.low, self.high)
        is_dense = self.size == size and self.stride == self.dilation == self.base == 1
        return is_dense and sorted(ends) == [0, size - 1]

    def divide(self, size: int, count: int) -> bool:
        """Whether `size` elements are `count` pieces of a stride, each with the window in it."""
        fit = self.base == 1 and not self.is_padded and self.extent <= self.stride
        return fit and size == count * self.stride

    def over(self, size: int, count: int, fill: Reduction | None) -> Windows | None:
        """`count` windows over `size` elements, with the identity of `fill` in the padding.

        `None` where windows read padding and `fill` is `None`, and where there are no windows.
        """
        if count == 0:
            return None
        return inside(Windows(size, count, self.stride, self.extent, self.low, self.base, fill))


def inside(windows: Windows) -> Windows | None:
    """The same windows; `None` where they read padding of unknown content."""
    return windows if windows.fill is not None or windows.stay_in_bounds else None


def turned_around(size: int) -> Windows | None:
    """The windows in which a reversed dimension reads its elements."""
    return Windows(size, size, -1, 1, 1 - size) if size else None


def read_windows(partitioned: PartitionedOp) -> None:
    """Slice each operand to the elements that its windows on this device read."""
    skipped = set()
    for window in partitioned.rule.windows_in_order(partitioned.devices):
        reading = _reading(partitioned, window)
        if reading is None:
            continue
        shard, value = partitioned.operand(window.operand), partitioned.op.operands[window.operand]
        with ir.InsertionPoint(partitioned.op), partitioned.op.location:
            if reading.rounds:
                fill = window.windows.fill or "sum"
                value = exchanged(
                    value, shard, window.dim, reading.rounds, reading.count, fill=fill
                )
            if any(reading.outside):
                value = _padded(value, window, reading.outside)
            if value.type.shape[window.dim] != reading.count:
                begin = shard.index(window.dim, reading.begins)
                value = build.extract_slice(value, begin, reading.count, window.dim)
        partitioned.op.operands[window.operand] = value
        if any(reading.skips) and window.factor not in skipped:
            skipped.add(window.factor)
            _skip_results(partitioned, window.factor, reading.skips)


def _skip_results(partitioned: PartitionedOp, factor: int, skips: Sequence[int]) -> None:
    """Let the op compute more results along the factor, of which the first ones are skipped."""
    op = partitioned.op
    results = zip(partitioned.rule.results, op.results, partitioned.results, strict=True)
    for dims, result, shard in results:
        for dim, factors in enumerate(dims or ()):
            if factor in factors and shard is not None:
                with ir.InsertionPoint.after(op), op.location:
                    begin = as_index(shard.own(dim, skips))
                    keep_part(result, dim, result.type.shape[dim] + max(skips), begin)


def keep_part(result: ir.Value, dim: int, size: int, begin: int | ir.Value) -> None:
    """Let a result have `size` elements along `dim`, of which its users read as many as they did.

    These begin at `begin`; what reads them out is created at the insertion point.
    """
    shape = list(result.type.shape)
    kept, shape[dim] = shape[dim], size
    result.set_type(build.resized(result.type, shape))
    own = build.extract_slice(result, begin, kept, dim)
    result.replace_all_uses_except(own, own.owner.operation)


def _padded(value: ir.Value, window: Window, outside: tuple[int, int]) -> ir.Value:
    """A shard with halo and more around it, which is outside of the tensor for all that read it."""
    low, high = outside
    shape = list(value.type.shape)
    shape[window.dim] += low + high
    into = build.resized(value.type, shape)
    content = identity_value(window.windows.fill or "sum", into.element_type)
    return build.embedded(value, into, window.dim, low, content)


def padding_of(
    partitioned: PartitionedOp, dim: int, global_padding: tuple[int, int]
) -> tuple[int, int]:
    """The padding around what a device's windows read in dimension `dim` of the first operand.

    `global_padding` is the padding of the global op, for a dimension that is not split.
    """
    for window in partitioned.rule.windows:
        if (window.operand, window.dim) == (0, dim):
            reading = _reading(partitioned, window)
            return (reading.lead, reading.trail) if reading else global_padding
    return global_padding


def _reading(partitioned: PartitionedOp, window: Window) -> Reading | None:
    """The elements that devices read in this window's dimension; `None` where it is not split."""
    devices = partitioned.devices(window.factor)
    return window.windows.reading(devices) if devices > 1 else None


def joined_along(
    query: Query, along: int, kind: Kind = "need_replication", role: Role = ""
) -> ShardingRule:
    """The rule of a concatenation along dimension `along`; all other dimensions pass.

    The joined dimension is a factor of this `kind`, which each operand is read along in windows.
    """
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        if dim == along:
            factors.add_to_all(dim, size, kind, windows=_windows(query, dim))
        else:
            factors.add_to_all(dim, size)
    return factors.rule(role)


def _windows(query: Query, dim: int) -> list[Windows | None]:
    """The windows in which the result reads each operand along `dim`."""
    result = query.results[0]
    sizes = [shape[dim] for shape in query.operands if shape is not None]
    if result is None:
        return []
    return [
        Windows(size, result[dim], 1, 1, begin)
        for size, begin in zip(sizes, _begins(sizes), strict=True)
    ]


def _begins(sizes: Sequence[int]) -> list[int]:
    return [0, *accumulate(sizes)][:-1]


def partition_joined(partitioned: PartitionedOp, dim: int) -> None:
    """Replace the op by selects between its operands, which are as large as the result's shard."""
    result = partitioned.result
    if not result.is_split(dim):
        return
    op, size = partitioned.op, result.shape[dim]
    sizes = [shard.global_shape[dim] for shard in partitioned.operands if shard is not None]
    with ir.InsertionPoint(op), op.location:
        value = op.operands[0]
        for operand, begin in list(zip(op.operands, _begins(sizes), strict=True))[1:]:
            starts = [begin - size * device for device in device_indices(result.devices[dim])]
            at = as_index(result.own(dim, [min(max(start, 0), size) for start in starts]))
            value = switch_at(value, operand, dim, at)
    replace_op(op, value)


def exchanged(
    value: ir.Value,
    shard: Shard,
    dim: int,
    rounds: Sequence[Round],
    count: int,
    *,
    fill: Reduction = "sum",
) -> ir.Value:
    """The `count` elements of dimension `dim` that this device reads, from the shards `value`.

    A box may begin before what is read, or end after it, and a device that gets none puts what it
    has in its place behind all, so there is room on both sides. Where boxes overlap, the later one
    holds. What no box has is the identity of `fill`.
    """
    devices = shard.devices[dim]
    boxes = [box for each in rounds for box in each.boxes]
    first = max(0, *(-box.put_at for box in boxes))
    room = max(each.size for each in rounds)
    # One box for each device may be all that it reads.
    is_all = len(rounds) == 1 and room == count and [box.put_at for box in boxes] == [0] * devices
    shape = list(value.type.shape)
    shape[dim] = first + count + room
    whole = None if is_all else identity_tensor(fill, build.resized(value.type, shape))
    for each in rounds:
        taken, put, to = [0] * devices, [first + count] * devices, [NOBODY] * devices
        for box in each.boxes:
            taken[box.sender], to[box.sender] = box.taken_at, box.receiver
            put[box.receiver] = first + box.put_at
        sent = value
        if each.size < value.type.shape[dim]:
            sent = build.extract_slice(value, shard.index(dim, taken), each.size, dim)
        moved = sent if each.stays else shard.permuted(dim, to, sent)
        if whole is None:
            return moved
        whole = build.insert_slice_at(whole, moved, dim, shard.index(dim, put))
    return build.extract_slice(whole, first, count, dim)
