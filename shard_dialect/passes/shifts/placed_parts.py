"""The parts that concatenations, paddings, updates and scatters put together.

%1 = concatenate %a, %b, dim = 0        %a at 0, then %b where it ends
%2 = dynamic_update_slice %x, %a, 1, 1  %a at 1 and 1, %x elsewhere
%3 = scatter %x, dense<1>, %a           %a at 1, if the indices are constants
%4 = pad %a, %f, low = [1], high = [1]  %a at 1, %f elsewhere
%5 = slice %1 [1:64]                    the same parts, each 1 before
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import splat_value
from shard_dialect.ir.walk import body, operations
from shard_dialect.model.sharding import Shape
from shard_dialect.ops.stablehlo.attribute_reading import integer, integers, padded_at, slice_bounds
from shard_dialect.ops.stablehlo.gather_scatter import Numbers


@dataclass(frozen=True, slots=True)
class Part:
    """`value` lies in a tensor from the indices `begins` on, and has the sizes `sizes` there.

    `dims` has the value's dimension for each of the tensor's, and `None` for one that it does not
    have, whose size is 1. `combine` is the elementwise op that makes the elements of those that
    were there and the value's; `None`: the value's take their place.
    """

    value: ir.Value
    begins: Shape
    sizes: Shape
    dims: tuple[int | None, ...]
    combine: str | None = None


@dataclass(frozen=True, slots=True)
class Assembly:
    """A tensor of parts; what no part covers is `base`, or `fill` in all elements."""

    parts: tuple[Part, ...]
    base: ir.Value | None = None
    fill: ir.Value | None = None


def assembly_of(op: ir.Operation) -> Assembly | None:
    """The parts that `op` puts together; `None` for other ops, and for places not known now."""
    reader = _READERS.get(op.name)
    shapes = [each.type.shape for each in (*op.operands, *op.results)] if reader else []
    if reader is None or not all(type(size) is int for shape in shapes for size in shape):
        return None
    if 0 in op.results[0].type.shape:
        return None
    assembly = reader(op)
    if assembly is None:
        return None
    parts = tuple(each for part in assembly.parts for each in _single(part))
    return replace(assembly, parts=parts)


def behind_copies(value: ir.Value, shape: Shape | None = None) -> ir.Value | None:
    """The value whose elements `value` has in the same order: the first of this shape, or any."""
    while shape is None or tuple(value.type.shape) != shape:
        source = copied_by(value)
        if source is None:
            return value if shape is None else None
        value = source
    return value


def copied_by(value: ir.Value) -> ir.Value | None:
    """The operand whose elements, in the same order, an op makes `value` of; `None` for others."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "stablehlo.concatenate":
        filled = [each for each in op.operands if 0 not in each.type.shape]
        return filled[0] if len(filled) == 1 else None
    if op.name == "stablehlo.reverse":
        shape = op.results[0].type.shape
        return op.operands[0] if all(shape[d] == 1 for d in integers(op, "dimensions")) else None
    if op.name == "stablehlo.broadcast_in_dim":
        dims = integers(op, "broadcast_dimensions")
        sizes = [prod(value.type.shape) for value in (op.operands[0], op.results[0])]
        return op.operands[0] if dims == sorted(dims) and sizes[0] == sizes[1] else None
    return op.operands[0] if op.name == "stablehlo.reshape" else None


def _single(part: Part) -> list[Part]:
    """The part, or several if it repeats one row, say: an edge, as a stencil's padding."""
    value = behind_copies(part.value)
    assert value is not None, "of any shape"
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "stablehlo.broadcast_in_dim":
        return [part]
    row = owner.operation.operands[0]
    shape, times = tuple(row.type.shape), _repeated(owner.operation)
    if times is None or len(shape) != len(part.sizes):
        return [part]
    before, count = times
    for dim, size in enumerate(part.sizes):
        is_it = size == count and shape[dim] == 1 and prod(part.sizes[:dim]) == before
        others = (*part.sizes[:dim], 1, *part.sizes[dim + 1 :])
        if is_it and shape == others and count <= _MOST_ROWS:
            single = replace(part, value=row, sizes=shape, dims=tuple(range(len(shape))))
            return [replace(single, begins=_moved(part.begins, dim, by)) for by in range(count)]
    return [part]


def _repeated(op: ir.Operation) -> tuple[int, int] | None:
    """How often a broadcast repeats each element, along one dimension, and the size before it."""
    dims, shape = integers(op, "broadcast_dimensions"), list(op.results[0].type.shape)
    of_dim = dict(zip(dims, op.operands[0].type.shape, strict=True))
    repeated = [dim for dim, size in enumerate(shape) if of_dim.get(dim, 1) != size]
    if len(repeated) != 1 or dims != sorted(dims):
        return None
    return prod(shape[: repeated[0]]), shape[repeated[0]]


def _moved(begins: Shape, dim: int, by: int) -> Shape:
    return (*begins[:dim], begins[dim] + by, *begins[dim + 1 :])


_MOST_ROWS = 8
"""The largest number of times that a repeated row is placed by itself."""


def _whole(value: ir.Value, begins: Sequence[int]) -> Part:
    shape = tuple(value.type.shape)
    return Part(value, tuple(begins), shape, tuple(range(len(shape))))


def _concatenate(op: ir.Operation) -> Assembly:
    dim, parts, at = integer(op, "dimension"), [], 0
    for value in op.operands:
        begins = [at if each == dim else 0 for each in range(value.type.rank)]
        if value.type.shape[dim]:
            parts.append(_whole(value, begins))
        at += value.type.shape[dim]
    return Assembly(tuple(parts))


def _pad(op: ir.Operation) -> Assembly | None:
    low = padded_at(op)
    return None if low is None else Assembly((_whole(op.operands[0], low),), fill=op.operands[1])


def _slice(op: ir.Operation) -> Assembly | None:
    """Of what another op puts together, only for slices of one size: the parts in the slice."""
    source, (starts, ends, strides) = op.operands[0].owner, slice_bounds(op)
    if isinstance(source, ir.Block) or any(each != 1 for each in strides):
        return None
    users = [use.owner.operation for use in op.operands[0].uses]
    if any(each.name != op.name or each.results[0].type != op.results[0].type for each in users):
        return None
    of = assembly_of(source.operation)
    if of is None or of.base is not None:
        return None
    parts = []
    for part in of.parts:
        begins = tuple(a - b for a, b in zip(part.begins, starts, strict=True))
        bounds = zip(part.begins, part.sizes, starts, ends, strict=True)
        if all(begin < end and begin + size > start for begin, size, start, end in bounds):
            parts.append(replace(part, begins=begins))
    return Assembly(tuple(parts), fill=of.fill)


def _dynamic_update_slice(op: ir.Operation) -> Assembly | None:
    base, update, *indices = op.operands
    begins = [constant_integers(index) for index in indices]
    if None in begins:
        return None
    room = [size - new for size, new in zip(base.type.shape, update.type.shape, strict=True)]
    placed = [min(max(at[0], 0), most) for at, most in zip(begins, room, strict=True) if at]
    return Assembly((_whole(update, placed),), base)


def _scatter(op: ir.Operation) -> Assembly | None:
    """One slice at constant indices, which are in bounds: others are not written."""
    if len(op.operands) != 3:
        return None
    base, indices, update = op.operands
    dims, at, combine = Numbers.of_scatter(op), constant_integers(indices), _combine(op)
    if at is None or len(at) != len(dims.indexed) or dims.batching or combine is None:
        return None
    if len(dims.window) != update.type.rank:
        return None
    windows = {of_base: dim for dim, of_base in dims.windows(base.type.rank).items()}
    of_value = tuple(windows.get(dim) for dim in range(base.type.rank))
    sizes = tuple(1 if dim is None else update.type.shape[dim] for dim in of_value)
    begins = [0] * base.type.rank
    for dim, index in zip(dims.indexed, at, strict=True):
        begins[dim] = index
    ends = (begin + size for begin, size in zip(begins, sizes, strict=True))
    if min(begins) < 0 or any(end > n for end, n in zip(ends, base.type.shape, strict=True)):
        return None
    return Assembly((Part(update, tuple(begins), sizes, of_value, combine or None),), base)


def _combine(op: ir.Operation) -> str | None:
    """The op by which a scatter combines elements; "" if it replaces them, `None` if unknown."""
    block = body(op)
    old, new = block.arguments
    *inside, last = operations(block)
    if not inside and last.operands[0] == new:
        return ""
    if (
        len(inside) == 1
        and inside[0].name in _COMBINERS
        and list(last.operands) == [inside[0].result]
    ):
        return inside[0].name if list(inside[0].operands) == [old, new] else None
    return None


_COMBINERS = frozenset(
    f"stablehlo.{name}" for name in ("add", "subtract", "multiply", "maximum", "minimum")
)


def constant_integers(value: ir.Value) -> list[int] | None:
    """The elements of an integer tensor of rank 0 or 1 that constants make; `None` if unknown."""
    if value.type.rank > 1:
        return None
    repeated = splat_value(value)
    if repeated is not None:
        return [repeated.value] * (value.type.shape[0] if value.type.rank else 1)
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    op = owner.operation
    if op.name == "stablehlo.constant":
        return list(op.attributes["value"])
    parts = [constant_integers(each) for each in op.operands]
    if None in parts or op.name not in _KEEPING:
        return None
    known = [each for part in parts if part for each in part]
    if op.name == "stablehlo.broadcast_in_dim" and len(known) == 1:
        return known * (value.type.shape[0] if value.type.rank else 1)
    return known


_KEEPING = ("stablehlo.broadcast_in_dim", "stablehlo.concatenate", "stablehlo.reshape")
"""The ops whose results have the elements of their operands, in order."""
MOVING = frozenset({"stablehlo.constant", "stablehlo.reverse", *_KEEPING})
"""Ops that make constants, or move elements, which nobody misses if nothing uses them."""

_READERS: dict[str, Callable[[ir.Operation], Assembly | None]] = {
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.pad": _pad,
    "stablehlo.scatter": _scatter,
    "stablehlo.slice": _slice,
}
ASSEMBLIES = frozenset(_READERS)
"""The ops that put tensors together."""
