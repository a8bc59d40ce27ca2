"""Ops that make, move and read elements of tensors, whichever dialect they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from shard_dialect.proof.field import mixed
from shard_dialect.proof.machine import (
    Data,
    Machine,
    Value,
    boxed,
    clipped,
    means,
    runs,
    widened,
    wrapped,
)
from shard_dialect.proof.reading import Op, Type

DYNAMIC = -(1 << 63)
"""A number in a list of static ones for which an operand stands."""


def constant(m: Machine, given: Any, type_: Type, op: Op) -> Value:
    """A number, an array, or a resource, whose elements stand for any."""
    if isinstance(given, str) or np.asarray(given).dtype.kind not in "biufc":
        return _named(m, str(given), type_, op)
    array = np.asarray(given)
    array = m.scalar(array if type_.kind == "other" else array.reshape(type_.shape))
    if type_.kind == "complex":
        parts = (m.field.of_floats(each, np.inf) for each in (array.real, array.imag))
        return Value(m.field.complex(*parts), True)
    if type_.is_float:
        return Value(m.field.of_floats(array, type_.largest), True)
    if type_.is_integer or array.dtype.kind in "iu":
        bits = array.astype(np.int64)
        return Value(bits & 1 if type_.is_bit else bits, False)
    raise m.unproven(op, f"is a constant of type {type_.text}")


def _named(m: Machine, name: str, type_: Type, op: Op) -> Value:
    """Elements of which nothing is known but the name of what they are in, and their place."""
    if type_.kind == "other":
        raise m.unproven(op, f"is a constant of type {type_.text}")
    positions = np.arange(prod(type_.shape), dtype=np.uint64).reshape(type_.shape)
    drawn = mixed(m.field.key("resource", name), positions)
    if type_.is_float:
        return Value(m.scalar(m.field.reduced(drawn)), True)
    return Value(m.scalar(m.as_integers(drawn, type_, 2)), False)


@means("arith.constant", "stablehlo.constant", "tosa.const", "sdy.constant", "tosa.const_shape",
       "mhlo.constant")  # fmt: skip
def _constant(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    key = id(op), m.axes
    if key not in m.constants:
        given = op.attributes["values" if op.name.startswith("tosa") else "value"]
        m.constants[key] = op, constant(m, given, op.type, op)
    return m.constants[key][1]


@means("tensor.empty", "bufferization.alloc_tensor", "ub.poison")
def _empty(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    if values and op.operand_types[-1].shape == op.type.shape:
        return values[-1]  # what it is a copy of
    return m.undefined(_sized(m, op))


def _sized(m: Machine, op: Op) -> Type:
    if -1 in op.type.shape:
        raise m.unproven(op, "has a size that is only known when the program runs")
    return op.type


@means("tensor.cast", "bufferization.to_tensor", "tosa.identity",
       "bufferization.to_buffer", "bufferization.materialize_in_destination")  # fmt: skip
def _same(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    return values[0]


@means("stablehlo.optimization_barrier")
def _barrier(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    return values


@means("stablehlo.reshape", "tensor.collapse_shape", "tensor.expand_shape", "tosa.reshape",
       "tensor.reshape")  # fmt: skip
def _reshape(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    return m.shaped(values[0], _sized(m, op).shape)


@means("stablehlo.transpose", "tosa.transpose")
def _transpose(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    order = op.attributes.get("permutation", op.attributes.get("perms"))
    return transposed(m, values[0], order)


def transposed(m: Machine, value: Value, order: Sequence[int]) -> Value:
    """Dimension `i` of the result is dimension `order[i]`."""
    places = (*range(m.axes), *(m.axes + dim for dim in order))
    return value.with_data(value.data.transpose(places))


@means("stablehlo.broadcast_in_dim")
def _broadcast(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    dims, shape = op.attributes["broadcast_dimensions"], op.type.shape
    own = [1] * len(shape)
    for dim, size in zip(dims, values[0].data.shape[m.axes :], strict=True):
        own[dim] = size
    order = np.argsort(np.asarray(dims, np.int64), kind="stable")
    return m.full(m.shaped(transposed(m, values[0], order.tolist()), own), shape)


@means("tensor.splat", "tensor.from_elements")
def _from_elements(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    symbolic = any(value.is_symbolic for value in values)
    shape = _sized(m, op).shape
    if op.name == "tensor.splat":
        return m.full(values[0], shape)
    lead = m.lead(*values)
    each = [m.elements(value) if symbolic else value.data for value in values]
    stacked = np.stack([np.broadcast_to(one, lead) for one in each], axis=-1)
    return Value(stacked.reshape((*lead, *shape)), symbolic)


@means("stablehlo.iota")
def _iota(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    shape, dim = op.type.shape, op.attributes["iota_dimension"]
    own = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
    data = m.scalar(np.broadcast_to(own, shape))
    if op.type.is_float:
        return Value(m.field.of_integers(data), True)
    return Value(wrapped(data, op.type), False)


@means("stablehlo.slice", "tosa.slice")
def _slice(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    if op.name == "tosa.slice":
        starts, sizes = (values[at].data.reshape(-1).tolist() for at in (1, 2))
        box = [slice(at, at + size) for at, size in zip(starts, sizes, strict=True)]
    else:
        named = ("start_indices", "limit_indices", "strides")
        box = [slice(*each) for each in zip(*(op.attributes[name] for name in named), strict=True)]
    return values[0].with_data(boxed(values[0].data, box))


@means("stablehlo.reverse", "tosa.reverse")
def _reverse(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    dims = op.attributes["dimensions"] if "dimensions" in op.attributes else [op.attributes["axis"]]
    return values[0].with_data(np.flip(values[0].data, tuple(m.axes + dim for dim in dims)))


@means("stablehlo.concatenate", "tensor.concat", "tosa.concat")
def _concatenate(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    dim = next(op.attributes[key] for key in ("dimension", "dim", "axis") if key in op.attributes)
    return concatenated(m, values, dim)


def concatenated(m: Machine, values: Sequence[Value], dim: int) -> Value:
    """The tensors after each other along a dimension."""
    symbolic = any(value.is_symbolic for value in values)
    lead = m.lead(*values)
    each = [m.spread(m.elements(v) if symbolic else v.data, lead) for v in values]
    return Value(np.concatenate(each, axis=m.axes + dim), symbolic)


@means("stablehlo.pad", "tosa.pad")
def _pad(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    if op.name == "tosa.pad":
        ends = values[1].data.reshape(-1, 2)
        low, high, inside = ends[:, 0].tolist(), ends[:, 1].tolist(), [0] * len(ends)
        return padded(m, values[0], values[2], low, high, inside)
    named = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return padded(m, values[0], values[1], *(op.attributes[name] for name in named))


def padded(
    m: Machine,
    value: Value,
    with_: Value,
    low: Sequence[int],
    high: Sequence[int],
    inside: Sequence[int],
) -> Value:
    """A tensor with a scalar before, after and between its elements; sizes below 0 cut."""
    symbolic = value.is_symbolic or with_.is_symbolic
    data, fill = (m.elements(v) if symbolic else v.data for v in (value, with_))
    fill = fill.reshape(fill.shape[: m.axes])
    lead = np.broadcast_shapes(data.shape[: m.axes], fill.shape)
    own = data.shape[m.axes :]
    spaced = [size + max(size - 1, 0) * gap for size, gap in zip(own, inside, strict=True)]
    room = [max(a, 0) + size + max(b, 0) for a, size, b in zip(low, spaced, high, strict=True)]
    full = np.broadcast_to(widened(fill, data.ndim), (*lead, *room)).copy()
    into = tuple(
        slice(max(a, 0), max(a, 0) + size, gap + 1)
        for a, size, gap in zip(low, spaced, inside, strict=True)
    )
    boxed(full, into)[...] = data
    cut = tuple(
        slice(max(-a, 0), size - max(-b, 0)) for a, size, b in zip(low, room, high, strict=True)
    )
    return Value(boxed(full, cut), symbolic)


@runs("tensor.pad")
def _pad_by_body(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    """The elements around the source are what the body gives for their places."""
    source, *rest = values
    low, rest = numbers(m, op, "static_low", rest)
    high, rest = numbers(m, op, "static_high", rest)
    shape = source.data.shape[m.axes :]
    before, after = ([as_integer(m, op, each) for each in ends] for ends in (low, high))
    full = [a + size + b for a, size, b in zip(before, shape, after, strict=True)]
    (around,) = m.run(op.body, known, [Value(each, False) for each in m.aranges(full)])
    return [inserted(m, source, m.full(around, full), before, [1] * len(full))]


@means("mesh.transfer")
def _transfer(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """Part of a tensor, or a tensor into a part of another one."""
    offsets = list(op.attributes["offsets"])
    ones = [1] * len(offsets)
    if len(values) > 1:
        return inserted(m, values[0], values[1], offsets, ones)
    return sliced(m, values[0], offsets, op.type.shape, ones)


@means("tensor.rank")
def _rank(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    return Value(m.scalar(np.array(len(op.operand_types[0].shape))), False)


@means("linalg.pack", "tensor.pack")
def _pack(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """Dimensions cut into tiles, whose insides come last; the last tiles may reach beyond."""
    source, with_ = values[0], values[2] if len(values) > 2 else None
    split, order = _tiles(m, op, op.operand_types[0], op.type)
    if with_ is None:
        # Beyond the tensor nothing is written, with other numbers at each place.
        wild = m.undefined(Type(op.type.text, split.padded, op.type.kind, op.type.width))
        wide = inserted(m, source, wild, [0] * len(split.padded), [1] * len(split.padded))
    else:
        high = [to - size for to, size in zip(split.padded, split.sizes, strict=True)]
        zeros = [0] * len(high)
        wide = padded(m, source, with_, zeros, high, zeros)
    return transposed(m, m.shaped(wide, split.cut), order)


@means("linalg.unpack", "tensor.unpack")
def _unpack(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """The inverse of a pack."""
    split, order = _tiles(m, op, op.type, op.operand_types[0])
    cut = transposed(m, values[0], np.argsort(order).tolist())
    tiled = m.shaped(cut, split.padded)
    return tiled.with_data(boxed(tiled.data, [slice(0, size) for size in split.sizes]))


@dataclass(frozen=True)
class _Tiled:
    """A tensor's sizes, those with whole tiles, and those with each tiled dimension as two."""

    sizes: tuple[int, ...]
    padded: tuple[int, ...]
    cut: tuple[int, ...]


def _tiles(m: Machine, op: Op, whole: Type, packed: Type) -> tuple[_Tiled, list[int]]:
    """How a tensor is in tiles, and where each dimension of the packed one is among the cut."""
    tiles = list(op.attributes["static_inner_tiles"])
    if DYNAMIC in tiles or -1 in (*whole.shape, *packed.shape):
        raise m.unproven(op, "has a size that is only known when the program runs")
    tile = dict(zip(op.attributes["inner_dims_pos"], tiles, strict=True))
    padded_sizes, cut, outer = list[int](), list[int](), list[int]()
    inner = dict[int, int]()
    for dim, size in enumerate(whole.shape):
        count = -(-size // tile.get(dim, 1))
        padded_sizes.append(count * tile.get(dim, 1))
        outer.append(len(cut))
        cut.append(count)
        if dim in tile:
            inner[dim] = len(cut)
            cut.append(tile[dim])
    permutation = list(op.attributes.get("outer_dims_perm", ())) or list(range(len(outer)))
    order = [outer[dim] for dim in permutation] + [inner[dim] for dim in tile]
    return _Tiled(whole.shape, tuple(padded_sizes), tuple(cut)), order


@means("mesh.roll")
def _roll(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    dim = m.axes + op.attributes["tensor_axis"]
    return values[0].with_data(np.roll(values[0].data, op.attributes["by"], dim))


@means("tensor.dim")
def _dim(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    shape = np.array([*values[0].data.shape[m.axes :], 0])
    m.require(op, (values[1].data >= 0) & (values[1].data < len(shape) - 1))
    return Value(shape[np.clip(values[1].data, 0, len(shape) - 1)], False)


@means("tensor.extract")
def _extract(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    source, *indices = values
    places = [m.integers(index) for index in m.aligned(indices)]
    picked = m.picked(source.data, places)
    sizes = source.data.shape[m.axes :]
    inside: Any = True
    for place, size in zip(places, sizes, strict=True):
        inside = inside & (place >= 0) & (place < size)
    m.require(op, inside)
    if not np.all(inside):
        picked = np.where(inside, picked, widened(m.undefined(op.type).data, picked.ndim))
    return source.with_data(picked)


@means("tensor.insert")
def _insert(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    element, into, *indices = values
    symbolic = element.is_symbolic or into.is_symbolic
    data, new = (m.elements(v) if symbolic else v.data for v in (into, element))
    here: Any = True
    for index, positions in zip(indices, m.aranges(data.shape[m.axes :]), strict=True):
        m.require(op, (index.data >= 0) & (index.data < positions.size))
        here = here & (positions == widened(index.data, data.ndim))
    return Value(np.where(here, widened(new, data.ndim), data), symbolic)


def numbers(
    m: Machine, op: Op, name: str, operands: Sequence[Value]
) -> tuple[list[Data | int], list[Value]]:
    """A list of numbers of which operands give some; and the operands that are left."""
    listed: list[Data | int] = []
    rest = list(operands)
    for number in op.attributes[name]:
        if number == DYNAMIC:
            data = rest.pop(0).data
            listed.append(int(data.reshape(-1)[0]) if data.size == 1 else data)
        else:
            listed.append(number)
    return listed, rest


@means("tensor.extract_slice")
def _extract_slice(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    source, *rest = values
    offsets, lengths, steps = _box(m, op, source.data.shape[m.axes :], rest)
    taken = sliced(m, source, offsets, lengths, steps)
    return m.shaped(taken, _kept_sizes(op.type, lengths))


def _box(
    m: Machine, op: Op, whole: Sequence[int], operands: Sequence[Value]
) -> tuple[list[Data | int], list[int], list[int]]:
    """Offsets, sizes and strides of a box; one that is not within its tensor has no meaning."""
    offsets, operands = numbers(m, op, "static_offsets", operands)
    sizes, operands = numbers(m, op, "static_sizes", operands)
    strides, _ = numbers(m, op, "static_strides", operands)
    lengths = [as_integer(m, op, size) for size in sizes]
    steps = [as_integer(m, op, stride) for stride in strides]
    for room, at, size, step in zip(whole, offsets, lengths, steps, strict=True):
        last = room - 1 - (size - 1) * step
        m.require(op, (np.asarray(at) >= 0) & (size >= 0) & (np.asarray(at) <= last))
    return offsets, lengths, steps


def as_integer(m: Machine, op: Op, number: Data | int) -> int:
    """A number that must be the same on all devices."""
    if isinstance(number, int):
        return number
    if len(set(number.reshape(-1).tolist())) > 1:
        raise m.unproven(op, "has numbers that differ between devices")
    return int(number.reshape(-1)[0])


def _kept_sizes(type_: Type, sizes: Sequence[int]) -> Sequence[int]:
    """The sizes without those of 1 that the smaller type drops."""
    if -1 not in type_.shape:
        return type_.shape
    left = list(sizes)
    while len(left) > len(type_.shape):
        left.remove(1)
    return left


def sliced(
    m: Machine,
    value: Value,
    offsets: Sequence[Data | int],
    sizes: Sequence[int],
    strides: Sequence[int],
) -> Value:
    """A box of a tensor; offsets are numbers, or arrays with a number for each device."""
    slices = _slices(offsets, sizes, strides)
    if slices is not None:
        return value.with_data(boxed(value.data, slices))
    indices = [
        _wide(at, points) + points * step
        for at, points, step in zip(offsets, m.aranges(sizes), strides, strict=True)
    ]
    return m.full(value.with_data(m.picked(value.data, indices)), sizes)


def _slices(
    offsets: Sequence[Data | int], sizes: Sequence[int], strides: Sequence[int]
) -> list[slice] | None:
    """A box whose place is the same on all devices."""
    slices = []
    for at, size, step in zip(offsets, sizes, strides, strict=True):
        if not isinstance(at, int):
            return None
        slices.append(slice(at, at + (size - 1) * step + 1 if size else at, step))
    return slices


def _wide(offset: Data | int, points: Data) -> Data | int:
    return offset if isinstance(offset, int) else widened(offset, points.ndim)


@means("tensor.insert_slice", "tensor.parallel_insert_slice")
def _insert_slice(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    source, into, *rest = values
    offsets, lengths, steps = _box(m, op, into.data.shape[m.axes :], rest)
    return inserted(m, m.shaped(source, lengths), into, offsets, steps)


def inserted(
    m: Machine,
    source: Value,
    into: Value,
    offsets: Sequence[Data | int],
    strides: Sequence[int],
) -> Value:
    """A tensor in which a box holds another one."""
    symbolic = source.is_symbolic or into.is_symbolic
    new, data = (m.elements(v) if symbolic else v.data for v in (source, into))
    sizes = new.shape[m.axes :]
    slices = _slices(offsets, sizes, strides)
    if slices is not None:
        full = m.spread(data, m.lead(source, into)).copy()
        boxed(full, slices)[...] = new
        return Value(full, symbolic)
    inside: Any = True
    places = []
    for at, points, size, step in zip(
        offsets, m.aranges(data.shape[m.axes :]), sizes, strides, strict=True
    ):
        away = points - _wide(at, points)
        inside = inside & (away >= 0) & (away % step == 0) & (away // step < size)
        places.append(away // step)
    if 0 in sizes:
        return into
    return Value(np.where(inside, m.picked(new, places), data), symbolic)


@means("stablehlo.dynamic_slice")
def _dynamic_slice(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    source, *starts = values
    sizes = op.attributes["slice_sizes"]
    offsets = _clamped(m, op, starts, source.data.shape[m.axes :], sizes)
    return sliced(m, source, offsets, sizes, [1] * len(sizes))


@means("stablehlo.dynamic_update_slice")
def _dynamic_update_slice(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    into, source, *starts = values
    sizes = source.data.shape[m.axes :]
    offsets = _clamped(m, op, starts, into.data.shape[m.axes :], sizes)
    return inserted(m, source, into, offsets, [1] * len(sizes))


def _clamped(
    m: Machine, op: Op, starts: Sequence[Value], whole: Sequence[int], sizes: Sequence[int]
) -> list[Data | int]:
    clamped: list[Data | int] = []
    types = op.operand_types[len(op.operand_types) - len(starts) :]
    for start, size, room, type_ in zip(starts, sizes, whole, types, strict=True):
        at = clipped(m.positions(start, type_), 0, room - size)
        clamped.append(int(at.reshape(-1)[0]) if at.size == 1 else at)
    return clamped
