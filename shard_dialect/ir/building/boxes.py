"""Boxes of tensors at the insertion point, at an offset in each dimension."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create, resized, slice_attributes

Offsets = Sequence[int | ir.Value]
"""Where a box begins in each dimension: an integer or an index."""


def extract_box(value: ir.Value, offsets: Offsets, shape: Sequence[int]) -> ir.Value:
    """The box of `value` of this shape that begins at `offsets`."""
    if tuple(value.type.shape) == tuple(shape):
        return value
    static, dynamic = _split(offsets)
    attributes = slice_attributes(shape, static, [1, len(dynamic), 0, 0])
    type_ = resized(value.type, shape)
    return create("tensor.extract_slice", [type_], [value, *dynamic], attributes).results[0]


def insert_box(value: ir.Value, box: ir.Value, offsets: Offsets) -> ir.Value:
    """`value` with `box` from `offsets` on."""
    if list(value.type.shape) == list(box.type.shape):
        return box
    static, dynamic = _split(offsets)
    attributes = slice_attributes(box.type.shape, static, [1, 1, len(dynamic), 0, 0])
    return create("tensor.insert_slice", [value.type], [box, value, *dynamic], attributes).results[
        0
    ]


def _split(offsets: Offsets) -> tuple[list[int], list[ir.Value]]:
    """The offsets with a mark in place of those that only the program knows; and these."""
    unknown = ir.ShapedType.get_dynamic_size()
    static = [each if isinstance(each, int) else unknown for each in offsets]
    return static, [each for each in offsets if not isinstance(each, int)]
