"""What the bodies of runtime functions do with buffers besides passing them to MPI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build_loops import generic
from shard_dialect.model import Reduction


def flat(buffer: ir.Value, slices: int | None = None) -> ir.Value:
    """View the elements of a contiguous buffer as one dimension, or as `slices` equal rows."""
    count = prod(buffer.type.shape)
    sizes = [count] if slices is None else [slices, count // slices]
    strides = [1] if slices is None else [sizes[1], 1]
    attributes = {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0, 0]),
        "static_offsets": ir.DenseI64ArrayAttr.get([0]),
        "static_sizes": ir.DenseI64ArrayAttr.get(sizes),
        "static_strides": ir.DenseI64ArrayAttr.get(strides),
    }
    type_ = ir.MemRefType.get(sizes, buffer.type.element_type)
    return build.create("memref.reinterpret_cast", [type_], [buffer], attributes).results[0]


def new_buffer(count: int, like: ir.Value) -> ir.Value:
    """Allocate `count` elements of the element type of `like`."""
    return build.allocate(ir.MemRefType.get([count], like.type.element_type)).results[0]


def free(buffer: ir.Value) -> None:
    """Deallocate the buffer."""
    build.create("memref.dealloc", [], [buffer])


def copy(buffer: ir.Value, into: ir.Value) -> None:
    """Copy all elements of a buffer to another of the same type."""
    build.create("memref.copy", [], [buffer, into])


def clear(buffer: ir.Value) -> None:
    """Set all elements to zero."""
    build.fill(reductions.identity_value("sum", buffer.type.element_type), buffer)


def combine_rows(buffer: ir.Value, count: int, into: ir.Value, reduction: Reduction) -> None:
    """Reduce the `count` equal rows of a buffer to one."""
    slices, slice_ = flat(buffer, count), flat(into)
    element = slice_.type.element_type
    kind: Reduction = "sum" if reduction == "average" else reduction
    build.fill(reductions.identity_value(kind, element), slice_)
    maps = ["affine_map<(d0, d1) -> (d0, d1)>", "affine_map<(d0, d1) -> (d1)>"]
    kinds = ["reduction", "parallel"]
    _loops(slices, slice_, maps, kinds, lambda a, b: reductions.combine(kind, a, b))
    if reduction == "average":
        divide(into, count)


def divide(buffer: ir.Value, by: int) -> None:
    """Divide all elements, of a float type, by a number."""
    elements = flat(buffer)
    element = elements.type.element_type
    number = build.scalar(ir.FloatAttr.get(element, float(by))).results[0]
    maps = ["affine_map<(d0) -> (d0)>"] * 2

    def quotient(a: ir.Value, _: ir.Value) -> ir.Value:
        return build.create("arith.divf", [element], [a, number]).results[0]

    _loops(elements, elements, maps, ["parallel"], quotient)


def _loops(
    source: ir.Value,
    into: ir.Value,
    maps: Sequence[str],
    kinds: Sequence[str],
    compute: Callable[[ir.Value, ir.Value], ir.Value],
) -> None:
    generic([source], into, [ir.Attribute.parse(each) for each in maps], kinds, compute)
