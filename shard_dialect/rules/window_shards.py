"""Window ops: the windows that their attributes describe, and what they read of shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.masking import as_index
from shard_dialect.model import Reduction, Window, Windows
from shard_dialect.model.window import Reading
from shard_dialect.rules.partitioned_op import PartitionedOp


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
    def are_elements(self) -> bool:
        """Whether each window is one element, and each element has one window."""
        is_padded = self.low != 0 or self.high != 0
        return self.size == 1 and self.stride == 1 and self.base == 1 and not is_padded

    def over(self, size: int, count: int, fill: Reduction | None) -> Windows | None:
        """`count` windows over `size` elements, with the identity of `fill` in the padding.

        `None` where windows read padding and `fill` is `None`.
        """
        extent = (self.size - 1) * self.dilation + 1
        return inside(Windows(size, count, self.stride, extent, self.low, self.base, fill))


def inside(windows: Windows) -> Windows | None:
    """The same windows; `None` where they read padding of unknown content."""
    return windows if windows.fill is not None or windows.stay_in_bounds else None


def read_windows(partitioned: PartitionedOp) -> None:
    """Slice each operand to the elements that its windows on this device read."""
    for window in partitioned.rule.windows:
        reading = _reading(partitioned, window)
        value = partitioned.op.operands[window.operand]
        if reading is None or value.type.shape[window.dim] == reading.count:
            continue
        with ir.InsertionPoint(partitioned.op), partitioned.op.location:
            begin = _begin(partitioned, window, reading.begins)
            partitioned.op.operands[window.operand] = build.extract_slice(
                value, begin, reading.count, window.dim
            )


def _begin(partitioned: PartitionedOp, window: Window, begins: Sequence[int]) -> int | ir.Value:
    if len(set(begins)) == 1:
        return begins[0]
    return as_index(partitioned.operand(window.operand).own(window.dim, begins))


def padding_of(
    partitioned: PartitionedOp, operand: int, dim: int, global_padding: tuple[int, int]
) -> tuple[int, int]:
    """The padding before and after what a device's windows read of dimension `dim` of an operand.

    `global_shape` is the padding of the global op, for a dimension that is not split.
    """
    for window in partitioned.rule.windows:
        if (window.operand, window.dim) == (operand, dim):
            reading = _reading(partitioned, window)
            return (reading.lead, reading.trail) if reading else global_padding
    return global_padding


def _reading(partitioned: PartitionedOp, window: Window) -> Reading | None:
    """What devices read in this window's dimension; `None` where it is not split."""
    devices = partitioned.devices(window.factor)
    return window.windows.reading(devices) if devices > 1 else None
