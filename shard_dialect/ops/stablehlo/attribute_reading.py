"""Read StableHLO's attributes, and write those of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shard_dialect.ir.bindings import ir, submodule
from shard_dialect.ir.building import build
from shard_dialect.ops.window_shards import WindowDimension


def numbers(op: ir.Operation, name: str, kind: str) -> Any:
    """The attribute `name` as the bindings' class `kind`, with a field for each of its lists."""
    return of_class(op.attributes[name], kind)


def of_class(attribute: ir.Attribute, kind: str) -> Any:
    """An attribute of StableHLO as the bindings' class `kind`."""
    return getattr(submodule("_mlir_libs._stablehlo"), kind)(attribute)


def integers(op: ir.Operation, name: str, default: Sequence[int] = ()) -> list[int]:
    """The attribute `name`, a list of integers, flat; `default` where there is none."""
    return list(op.attributes[name] if name in op.attributes else default)


def integer(op: ir.Operation, name: str, default: int | None = None) -> int:
    """The attribute `name`; `default` where an op may go without it."""
    if default is not None and name not in op.attributes:
        return default
    return op.attributes[name].value


def slice_bounds(op: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    """Where a slice begins and ends in each dimension, and its strides."""
    return (
        integers(op, "start_indices"),
        integers(op, "limit_indices"),
        integers(op, "strides"),
    )


def pad_widths(op: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    """How much a pad adds before, after and between the elements of each dimension."""
    return (
        integers(op, "edge_padding_low"),
        integers(op, "edge_padding_high"),
        integers(op, "interior_padding"),
    )


def padded_at(op: ir.Operation) -> list[int] | None:
    """Where a pad puts its operand as it is; `None` if it cuts it, or pads between elements."""
    low, high, between = pad_widths(op)
    return low if min((*low, *high), default=0) >= 0 and not any(between) else None


def sorted_dim(op: ir.Operation) -> int:
    """The dimension that a sort sorts along: the last one, unless it says another.

    It may be counted from the last one.
    """
    return integer(op, "dimension", -1) % max(op.operands[0].type.rank, 1)


def windows_of(op: ir.Operation, names: dict[str, str], sizes: list[int]) -> list[WindowDimension]:
    """The windows of each dimension; `names` are the attributes of stride, dilation and base."""
    listed = {field: integers(op, name, [1] * len(sizes)) for field, name in names.items()}
    padding = integers(op, "padding", [0] * 2 * len(sizes))  # two for each dimension, in one list
    return [
        WindowDimension(
            size,
            listed["stride"][dim],
            listed["dilation"][dim],
            listed["base"][dim],
            *padding[2 * dim : 2 * dim + 2],
        )
        for dim, size in enumerate(sizes)
    ]


def write_padding(op: ir.Operation, padding: list[tuple[int, int]]) -> None:
    """Set the op's padding, low and high for each dimension."""
    if not padding:
        return
    sizes = [size for ends in padding for size in ends]
    op.attributes["padding"] = build.dense(sizes, build.integer(64), [len(padding), 2])


_NAMES = {"stride": "window_strides", "dilation": "window_dilations", "base": "base_dilations"}


def windows_over(op: ir.Operation) -> list[WindowDimension]:
    """The windows of a `reduce_window` or `select_and_scatter`, along each dimension."""
    return windows_of(op, _NAMES, integers(op, "window_dimensions"))
