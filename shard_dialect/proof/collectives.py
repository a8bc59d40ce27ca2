"""What devices exchange, as operations along the axes of the grid.

Written from the documentation of upstream's `shard` dialect and of ours.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from shard_dialect.errors import as_symbol
from shard_dialect.proof.elementwise import identity, reduced
from shard_dialect.proof.machine import Data, Machine, Torn, Value, noted_in, runs
from shard_dialect.proof.reading import Op
from shard_dialect.proof.tensors import DYNAMIC, as_integer

_REDUCTIONS = {
    "sum": "add",
    "product": "mul",
    "max": "max",
    "min": "min",
    "average": "add",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
Collective = Callable[[Machine, Op, Value, tuple[int, ...]], Value]
_COLLECTIVES: dict[str, Collective] = {}


_collective = noted_in(_COLLECTIVES)


def grouped(m: Machine, data: Data, axes: Sequence[int]) -> Data:
    """The array with the members of a group as its first dimension, in place of their axes."""
    lead = [m.grid[a] if a in axes else size for a, size in enumerate(data.shape[: m.axes])]
    data = np.moveaxis(m.spread(data, lead), list(axes), range(len(axes)))
    return data.reshape(_members(m, axes), *data.shape[len(axes) :])


def ungrouped(m: Machine, data: Data, axes: Sequence[int]) -> Data:
    """The inverse of `grouped`."""
    sizes = [m.grid[axis] for axis in axes]
    data = data.reshape((*sizes, *data.shape[1:]))
    return np.moveaxis(data, range(len(axes)), list(axes))


def alike(m: Machine, data: Data, axes: Sequence[int]) -> Data:
    """The array, without dimensions for these axes, as one that all members have."""
    data = data.reshape((1,) * len(axes) + data.shape)
    return np.moveaxis(data, range(len(axes)), list(axes))


def _own(m: Machine, axes: Sequence[int], dim: int) -> int:
    """Where the tensor's dimension `dim` is in an array that has members and then other axes."""
    return 1 + m.axes - len(axes) + dim


def _members(m: Machine, axes: Sequence[int]) -> int:
    return prod(m.grid[axis] for axis in axes)


def _split(data: Data, at: int, count: int) -> Data:
    """The array with dimension `at` as `count` equal parts."""
    size = data.shape[at] // count
    return data.reshape((*data.shape[:at], count, size, *data.shape[at + 1 :]))


def _joined(data: Data, at: int) -> Data:
    """The array with dimensions `at` and `at + 1` as one."""
    shape = data.shape
    return data.reshape((*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))


@_collective("shard.all_gather")
def _all_gather(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    return value.with_data(gathered(m, value, axes, op.attributes["gather_axis"]))


def gathered(m: Machine, value: Value, axes: Sequence[int], dim: int) -> Data:
    """The shards of a dimension, the last of the axes fastest; all members have it."""
    data = grouped(m, value.data, axes)
    at = _own(m, axes, dim) - 1
    return alike(m, _joined(np.moveaxis(data, 0, at), at), axes)


@_collective("shard.all_reduce")
def _all_reduce(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    total = _total(m, op, value, axes)
    return total.with_data(alike(m, total.data, axes))


def _total(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    """The reduction, without dimensions for the axes."""
    kind = _kind(m, op)
    data = grouped(m, value.data, axes)
    total = reduced(m, _REDUCTIONS[kind], value.with_data(data), op.type, [0])
    if kind == "average":
        count = m.field.of_integers(np.array(len(data)))
        total = Value(m.field.div(m.elements(total), count), True)
    return total


def _kind(m: Machine, op: Op) -> str:
    words = re.findall(r"\w+", str(op.attributes.get("reduction", "sum")))
    if words[-1] not in _REDUCTIONS:
        raise m.unproven(op, f"reduces by {words[-1]}")
    return words[-1]


@_collective("shard.all_slice")
def _all_slice(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    return own_shard(m, value, axes, op.attributes["slice_axis"])


def own_shard(m: Machine, value: Value, axes: Sequence[int], dim: int) -> Value:
    """Of a dimension each member keeps its shard."""
    data = grouped(m, value.data, axes)
    at = _own(m, axes, dim) - 1
    parts = np.stack([_split(each, at, len(data)).take(n, at) for n, each in enumerate(data)])
    return value.with_data(ungrouped(m, parts, axes))


@_collective("shard.reduce_scatter")
def _reduce_scatter(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    dim = next(op.attributes[k] for k in ("scatter_dim", "scatter_axis") if k in op.attributes)
    total = _total(m, op, value, axes)
    return _scattered(m, total.data, total.is_symbolic, axes, dim)


def _scattered(m: Machine, data: Data, is_symbolic: bool, axes: Sequence[int], dim: int) -> Value:
    at = _own(m, axes, dim) - 1
    parts = np.moveaxis(_split(data, at, _members(m, axes)), at, 0)
    return Value(ungrouped(m, parts, axes), is_symbolic)


@_collective("shard.all_to_all")
def _all_to_all(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    split, concat = op.attributes["split_axis"], op.attributes["concat_axis"]
    data = grouped(m, value.data, axes)
    at = _own(m, axes, split)
    data = np.moveaxis(_split(data, at, len(data)), at, 0)  # receiver, sender, ...
    at = _own(m, axes, concat)
    return value.with_data(ungrouped(m, _joined(np.moveaxis(data, 1, at), at), axes))


@_collective("mesh.collective_permute")
def _permute(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    return _sent(m, value, axes, op.attributes["permutation"])


def _sent(m: Machine, value: Value, axes: Sequence[int], to: Sequence[int]) -> Value:
    """Member i's goes to member `to[i]`; one that receives nothing has zeros."""
    data = grouped(m, value.data, axes)
    result = np.zeros_like(data)
    for sender, receiver in enumerate(to):
        if receiver >= 0:
            result[receiver] = data[sender]
    return value.with_data(ungrouped(m, result, axes))


@_collective("shard.shift")
def _shift(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    along, offset = op.attributes["shift_axis"], op.attributes["offset"]
    size = m.grid[along]
    rotates = "rotate" in op.attributes
    to = [n + offset if 0 <= n + offset < size else -1 for n in range(size)]
    return _sent(m, value, [along], [(n + offset) % size for n in range(size)] if rotates else to)


@_collective("shard.broadcast")
def _broadcast(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    data = grouped(m, value.data, axes)[_root(m, op, axes)]
    return value.with_data(alike(m, data, axes))


def _with_root(m: Machine, op: Op, computed: Sequence[Value]) -> Op:
    """The op whose root, where operands give it, is the same number on all devices."""
    given = iter(computed)
    root = [
        as_integer(m, op, m.integers(next(given))) if number == DYNAMIC else number
        for number in op.attributes["root"]
    ]
    return replace(op, attributes={**op.attributes, "root": tuple(root)})


def _root(m: Machine, op: Op, axes: Sequence[int]) -> int:
    index, sizes = tuple(op.attributes["root"]), [m.grid[axis] for axis in axes]
    if any(not 0 <= at < size for at, size in zip(index, sizes, strict=True)):
        raise m.unproven(op, f"has the root {list(index)} in groups of {sizes}")
    return int(np.ravel_multi_index(index, sizes))


@_collective("shard.gather", "shard.reduce")
def _to_root(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    """The root has the result; what the others have is not said."""
    if op.name == "shard.gather":
        data, symbolic = gathered(m, value, axes, op.attributes["gather_axis"]), value.is_symbolic
    else:
        total = _total(m, op, value, axes)
        data, symbolic = alike(m, total.data, axes), total.is_symbolic
    wild = m.undefined(op.type)
    result = grouped(m, m.elements(wild) if symbolic else wild.data, axes).copy()
    root = _root(m, op, axes)
    result[root] = grouped(m, data, axes)[root]
    return Value(ungrouped(m, result, axes), symbolic)


@_collective("shard.scatter")
def _scatter(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    dim = next(op.attributes[k] for k in ("scatter_dim", "scatter_axis") if k in op.attributes)
    data = grouped(m, value.data, axes)[_root(m, op, axes)]
    return _scattered(m, data, value.is_symbolic, axes, dim)


@_collective("mesh.mask")
def _mask(m: Machine, op: Op, value: Value, axes: tuple[int, ...]) -> Value:
    """The first member keeps its tensor, the others have the identity of the reduction."""
    data = grouped(m, value.data, axes)
    neutral = identity(m, _REDUCTIONS[_kind(m, op)], op.type).data.reshape(-1)[0]
    result = np.full_like(data, neutral)
    result[0] = data[0]
    return value.with_data(ungrouped(m, result, axes))


@runs("shard.update_halo")
def _update_halo(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    split = axis_lists(op.attributes["split_axes"])
    sizes = list(op.attributes.get("static_halo_sizes", ()))
    if DYNAMIC in sizes:
        raise m.unproven(op, "has halos that the program computes")
    here = on_named(m, op, op.attributes["grid"])
    value = here.moved(values[0], m)
    for dim, axes in enumerate(split):
        if axes:
            low, high, sizes = sizes[0], sizes[1], sizes[2:]
            _check_together(here, op, axes)
            value = _with_halo(here, value, tuple(axes), dim, low, high)
    return [m.moved(value, here)]


def axis_lists(attribute: Any) -> list[list[int]]:
    """The axes that an attribute has for each dimension."""
    text = str(attribute)
    return [list(each) for each in literal_eval(text[text.index("[") : text.rindex("]") + 1])]


def _with_halo(
    m: Machine, value: Value, axes: tuple[int, ...], dim: int, low: int, high: int
) -> Value:
    """Each halo holds what the neighbours have; beyond the last one it stays as it is."""
    data = grouped(m, value.data, axes)
    at = _own(m, axes, dim)
    data = np.moveaxis(data, at, 1)
    result = data.copy()
    count, size = len(data), data.shape[1] - low - high
    for place in (*range(low), *range(low + size, data.shape[1])):
        away, row = divmod(place - low, max(size, 1))
        for member in range(count):
            if 0 <= member + away < count and size:
                result[member, place] = data[member + away, low + row]
    return value.with_data(ungrouped(m, np.moveaxis(result, 1, at), axes))


@runs("mesh.start")
def _start(m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]) -> Sequence[Value]:
    what = dict(op.attributes["collective"])
    started = replace(op, name=what.pop("name"), attributes=what)
    return _run_collective(m, started, values, known)


@runs("mesh.done")
def _done(m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]) -> Sequence[Value]:
    return values


@runs("shard.process_multi_index", "shard.process_linear_index", "mesh.idx", "mesh.size",
      "shard.grid_shape")  # fmt: skip
def _position(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    """Where this device is, or how many there are."""
    name = op.attributes.get("grid", op.attributes.get("cluster"))
    here = m if name is None else on_named(m, op, name)
    return [m.moved(each, here) for each in _positions(here, op)]


def _positions(m: Machine, op: Op) -> list[Value]:
    listed = op.attributes.get("axes", op.attributes.get("mesh_axis"))
    if listed is None and "axis" in op.attributes:
        listed = [op.attributes["axis"]]
    axes = list(listed or range(m.axes))
    if op.name in ("mesh.size", "shard.grid_shape"):
        sizes = [m.grid[axis] for axis in axes]
        counts = [prod(sizes)] if op.name == "mesh.size" else sizes
        return [Value(m.scalar(np.array(each)), False) for each in counts]
    coordinates = m.aranges(m.grid)
    places = [each.reshape(each.shape[m.axes :]) for each in coordinates]
    if op.name == "shard.process_multi_index":
        return [Value(places[axis], False) for axis in axes]
    flat: Any = np.zeros((1,) * m.axes, np.int64)
    for axis in axes:
        flat = flat * m.grid[axis] + places[axis]
    return [Value(flat, False)]


def _run_collective(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    if op.name == "shard.update_halo":
        return _update_halo(m, op, values, known)
    collective = _COLLECTIVES.get(op.name)
    if collective is None:
        raise m.unproven(op, "is not known to the prover")
    is_ours = op.name.startswith("mesh.")
    if is_ours and not {"cluster", "mesh_axis"} <= set(op.attributes):
        return [values[0]]  # of the distributed form, whose tensors are global
    if len(values) > 1:
        op = _with_root(m, op, values[1:])
    name = op.attributes["cluster" if is_ours else "grid"]
    axes = tuple(op.attributes["mesh_axis" if is_ours else "grid_axes"])
    here = on_named(m, op, name)
    _check_together(here, op, axes)
    return [m.moved(collective(here, op, here.moved(values[0], m), axes), here)]


for _name in _COLLECTIVES:
    runs(_name)(_run_collective)


def on_named(m: Machine, op: Op, name: str) -> Machine:
    """The devices as the grid of this name has them."""
    grid = m.program.grids.get(name)
    if grid is None:
        raise m.unproven(op, f"is on {as_symbol(name)}, which is a part of a grid")
    if sorted(grid.devices) != sorted(m.devices.devices):
        raise m.unproven(
            op, f"is on {as_symbol(name)}, which has other devices than the largest grid"
        )
    return m.on(grid)


def _check_together(m: Machine, op: Op, axes: Sequence[int]) -> None:
    """Raise `Torn` unless all members of each group are in the branch that is evaluated."""
    if m.active is not None and _varies(m.active, axes):
        what = f"'{op.name}' op is reached by some devices of a group and not by others"
        raise Torn(what, op.place)
    if any(_varies(bits, axes) for bits in m.choices):
        raise m.unproven(
            op, "is in a branch that devices of a group choose by numbers of their own"
        )


def _varies(data: Data, axes: Sequence[int]) -> bool:
    """Whether devices of a group have other numbers."""
    return any(np.any(np.take(data, [0], axis) != data) for axis in axes)
