"""Which elements of a global tensor each device holds, by the documents' definition.

A dimension of `size` elements along axes with n devices has shards of ceil(size / n) elements, the
last ones shorter; or shards at offsets, padded to the longest. A halo is around a shard. Parts of a
sum are such that they add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.sharding_attributes import read_sharding
from shard_dialect.proof.collectives import grouped, ungrouped
from shard_dialect.proof.elementwise import identity, reduced
from shard_dialect.proof.machine import Data, Machine, Unproven, Value, widened, wrapped
from shard_dialect.proof.reading import Type, read_type
from shard_dialect.proof.tiles import Tiles

_KINDS = {"sum": "add", "product": "mul", "max": "max", "min": "min"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where an argument or result is: its global type, its sharding if any, and its stage."""

    whole: Type
    sharding: Any
    part: str | None
    tiles: Tiles | None = None
    """In a program that XLA has partitioned."""

    @classmethod
    def of(cls, attributes: Mapping[str, ir.Attribute], key: str, local: Type) -> Place:
        """From the attributes of an argument or result of the local form."""
        stage = attributes.get("shard_dialect.stage")
        part = None if stage is None else str(stage).removeprefix("@")
        if "tiles" in attributes:
            tiles = Tiles.read(attributes["tiles"].value, len(local.shape))
            return cls(local, None, part, tiles)
        if key not in attributes:
            return cls(local, None, part)
        whole = read_type(attributes[key].value)
        sharding = None
        if whole.sharding is not None:
            sharding = read_sharding(whole.sharding, len(whole.shape))
        return cls(whole, sharding, part)


@dataclass(frozen=True, slots=True)
class Shards:
    """Positions in the global tensor of a local one's elements, for each device."""

    positions: tuple[Data, ...]
    is_inside: Data
    is_beyond: Data
    """Which elements are in a halo beyond the end of the tensor."""


def shards(m: Machine, place: Place, shape: tuple[int, ...]) -> Shards:
    """The shards of a tensor, of local `shape`, on the devices of `m`."""
    rank = len(shape)
    inside: Any = np.ones((1,) * (m.axes + rank), bool)
    beyond: Any = np.zeros((1,) * (m.axes + rank), bool)
    positions = []
    points = m.aranges(shape)
    for dim, (size, points_here) in enumerate(zip(place.whole.shape, points, strict=True)):
        axes, halo, offsets = _of_dim(place, dim)
        count = prod(m.grid[axis] for axis in axes)
        member = _member(m, axes, rank)
        if place.tiles is not None:
            count = place.tiles.counts[dim]
            tiles = place.tiles.places[list(m.devices.devices), dim]
            member = tiles.reshape((*m.grid, *(1,) * rank))
        own = -(-size // count)
        starts = np.arange(count + 1) * own
        if offsets:
            starts = np.array(offsets)
            if starts[0] != 0 or starts[-1] != size:
                raise Unproven(f"offsets {list(offsets)} leave out elements of a size {size}")
        at = starts[member] + points_here - halo[0]
        positions.append(at)
        is_in = (at >= 0) & (at < size)
        if offsets or not any(halo):
            is_in = is_in & (at < starts[member + 1])
        elif axes:
            beyond = beyond | ~is_in
        inside = inside & is_in
    if place.part is not None:
        inside = inside & _in_part(m, place.part, rank)
        beyond = beyond & _in_part(m, place.part, rank)
    return Shards(tuple(positions), inside, beyond)


def _of_dim(place: Place, dim: int) -> tuple[tuple[int, ...], tuple[int, int], tuple[int, ...]]:
    sharding = place.sharding
    if sharding is None:
        return (), (0, 0), ()
    axes = sharding.split_axes[dim]
    if not all(isinstance(axis, int) for axis in axes):
        raise Unproven(f"sharding {sharding} is along parts of an axis, which no local program has")
    halo = (sharding.halos[dim] if sharding.halos else ()) or (0, 0)
    offsets = (sharding.offsets[dim] if sharding.offsets else ()) or ()
    return axes, halo, offsets


def _member(m: Machine, axes: tuple[int, ...], rank: int) -> Data:
    """The number of each device among those along axes, the last one fastest."""
    member: Any = np.zeros((1,) * (m.axes + rank), np.int64)
    for axis, coordinate in zip(axes, (_coordinate(m, a, rank) for a in axes), strict=True):
        member = member * m.grid[axis] + coordinate
    return member


def _coordinate(m: Machine, axis: int, rank: int) -> Data:
    shape = [1] * (m.axes + rank)
    shape[axis] = m.grid[axis]
    return np.arange(m.grid[axis]).reshape(shape)


def _in_part(m: Machine, name: str, rank: int) -> Data:
    """Which devices are in a part, which its own grid says."""
    part, offsets = m.program.parts.get(name), None
    while part is not None:
        offsets = np.add(part.offsets, 0 if offsets is None else offsets)
        if part.grid in m.program.grids:
            break
        part = m.program.parts.get(part.grid)
    if part is None or offsets is None:
        raise Unproven(f"stage {as_symbol(name)} is not declared")
    here = m.on(m.program.grids[part.grid])
    inside: Any = True
    sizes = m.program.parts[name].sizes
    for axis, (start, size) in enumerate(zip(offsets.tolist(), sizes, strict=True)):
        coordinate = _coordinate(here, axis, 0)
        inside = inside & (coordinate >= start) & (coordinate < start + size)
    moved = m.moved(Value(inside, False), here).data
    return widened(moved, moved.ndim + rank)


def argument(m: Machine, whole: Value, place: Place, local: Type) -> Value:
    """What each device has of an argument; what is not of the tensor holds anything."""
    here = on_grid_of(m, place)
    return m.moved(_argument(here, here.moved(whole, m), place, local), here)


def on_grid_of(m: Machine, place: Place) -> Machine:
    """The devices as the grid of a sharding has them."""
    if place.sharding is None:
        return m
    grid = m.program.grids.get(place.sharding.grid)
    if grid is None or sorted(grid.devices) != sorted(m.devices.devices):
        raise Unproven(
            f"a sharding is on {as_symbol(place.sharding.grid)}, which is no grid of all devices"
        )
    return m.on(grid)


def _argument(m: Machine, whole: Value, place: Place, local: Type) -> Value:
    held = shards(m, place, local.shape)
    value = m.full(whole.with_data(m.picked(whole.data, held.positions)), local.shape)
    if not np.all(held.is_inside):
        other = m.undefined(local)
        rest = m.elements(other) if value.is_symbolic else other.data
        if np.any(held.is_beyond):
            fill = identity(m, _KINDS[place.sharding.fill], local)
            number = (m.elements(fill) if value.is_symbolic else fill.data).reshape(-1)[0]
            rest = np.where(held.is_beyond, number, rest)
        value = value.with_data(np.where(held.is_inside, value.data, rest))
    if place.sharding is not None and place.sharding.partial:
        value = parts(m, value, place.sharding.partial, place.sharding.reduction, local)
    return value


def parts(m: Machine, value: Value, axes: Sequence[int], reduction: str, local: Type) -> Value:
    """Random parts along axes whose sum, or product or maximum, is the value."""
    kind = _KINDS.get(reduction)
    if kind is None:
        raise Unproven(f"an argument that is a partial {reduction} cannot be proven")
    data = grouped(m, value.data, axes).copy()
    if kind in ("max", "min") and (m.is_ordered or not local.is_float) and not local.is_bit:
        data[1:] = data[0]
    elif local.is_bit or (kind == "mul" and not local.is_float):
        data[1:] = identity(m, kind, local).data.reshape(-1)[0]
    else:
        drawn = grouped(m, m.arbitrary(local).data, axes)
        alike = tuple(slice(0, size) for size in data.shape[1:])  # along the other axes
        data[1:] = np.broadcast_to(drawn[(slice(1, None), *alike)], data[1:].shape)
        rest = reduced(m, kind, value.with_data(data[1:]), local, [0]).data
        data[0] = _without(m, kind, data[0], rest, local)
    return value.with_data(ungrouped(m, data, axes))


def _without(m: Machine, kind: str, whole: Data, rest: Data, type_: Type) -> Data:
    """The number that makes `whole` with `rest`."""
    if not type_.is_float:
        return wrapped(whole - rest, type_)
    f = m.field
    if kind == "add":
        return f.sub(whole, rest)
    if kind == "mul":
        return f.div(whole, rest)
    if kind == "min":
        return f.neg(_without(m, "max", f.neg(whole), f.neg(rest), type_))
    return f.undisguised(f.div(f.disguised(whole), f.disguised(rest)))


def total(m: Machine, value: Value, place: Place, local: Type) -> Value:
    """A result whose parts are combined."""
    if place.sharding is None or not place.sharding.partial:
        return value
    return reduced_parts(m, value, place.sharding.partial, place.sharding.reduction, local)


def reduced_parts(
    m: Machine, value: Value, axes: Sequence[int], reduction: str, local: Type
) -> Value:
    """The sum, product or maximum of the parts along axes."""
    kind = _KINDS.get(reduction)
    if kind is None:
        raise Unproven(f"a result that is a partial {reduction} cannot be proven")
    data = grouped(m, value.data, axes)
    whole = reduced(m, kind, value.with_data(data), local, [0]).data
    spread = np.broadcast_to(whole, (len(data), *whole.shape))
    return value.with_data(ungrouped(m, spread, axes))
