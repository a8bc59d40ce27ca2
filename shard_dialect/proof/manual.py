"""Manual computations: where global tensors become local, and collectives by replica groups."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from shard_dialect.ir.mesh.sharding_attributes import read_sharding
from shard_dialect.ir.sdy.syntax import TensorSharding, read_manual_axes, read_per_value
from shard_dialect.proof.boundary import parts, reduced_parts
from shard_dialect.proof.collectives import gathered, on_named, own_shard
from shard_dialect.proof.elementwise import reduced
from shard_dialect.proof.machine import Data, Machine, Value, runs
from shard_dialect.proof.reading import Grid, Op
from shard_dialect.proof.structured_stablehlo import combiner
from shard_dialect.proof.tiles import groups_along

Split = Sequence[Sequence[int]]
"""The axes of each dimension."""


@runs("mesh.to_local", "mesh.to_global")
def _mesh_boundary(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    value = values[0]
    sharding = read_sharding(op.attributes["sharding"], value.data.ndim - m.axes)
    here = on_named(m, op, sharding.grid)
    manual = set(op.attributes["manual_axes"])
    split = [
        [axis for axis in axes if isinstance(axis, int) and axis in manual]
        for axes in sharding.split_axes
    ]
    value = here.moved(value, m)
    if op.name == "mesh.to_local":
        value = _to_local(here, value, split)
    else:
        value = _to_global(here, value, split, manual)
    return [m.moved(value, here)]


@runs("sdy.manual_computation")
def _sdy_manual(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    entering = read_per_value(str(op.attributes["in_shardings"]))
    leaving = read_per_value(str(op.attributes["out_shardings"]))
    manual = read_manual_axes(str(op.attributes["manual_axes"]))
    meshes = {each.mesh for each in (*entering, *leaving)}
    if len(meshes) > 1 or not all(isinstance(mesh, str) for mesh in meshes):
        raise m.unproven(op, "has shardings on several meshes")
    here = on_named(m, op, str(*meshes)) if meshes else m
    names = m.program.axis_names.get(str(*meshes), ()) if meshes else ()
    number = {name: axis for axis, name in enumerate(names)}
    inside = []
    for value, sharding, type_ in zip(values, entering, op.body.types, strict=True):
        own = _to_local(here, here.moved(value, m), _split(m, op, sharding, manual, number))
        summed = _summed(m, op, sharding, number)
        inside.append(parts(here, own, summed, sharding.reduction, type_) if summed else own)
    axes = {number[name] for name in manual if name in number}
    results = []
    for value, sharding, type_ in zip(
        here.run(op.body, known, inside), leaving, op.types, strict=True
    ):
        if summed := _summed(m, op, sharding, number):
            value = reduced_parts(here, value, summed, sharding.reduction, type_)
        whole = _to_global(here, value, _split(m, op, sharding, manual, number), axes)
        results.append(m.moved(whole, here))
    return results


def _split(
    m: Machine,
    op: Op,
    sharding: TensorSharding,
    manual: Sequence[str],
    number: Mapping[str, int],
) -> Split:
    if any(axis.sub for dim in sharding.dims for axis in dim.axes if axis.name in manual):
        raise m.unproven(op, "is manual along a part of an axis")
    return [
        [number[axis.name] for axis in dim.axes if axis.name in manual] for dim in sharding.dims
    ]


def _summed(
    m: Machine, op: Op, sharding: TensorSharding, number: Mapping[str, int]
) -> Sequence[int]:
    """The axes along which devices have parts of a sum."""
    if any(axis.sub for axis in sharding.unreduced):
        raise m.unproven(op, "is unreduced along a part of an axis")
    return [number[axis.name] for axis in sharding.unreduced]


def _to_local(m: Machine, value: Value, split: Split) -> Value:
    """Each device's shard along these axes."""
    for dim, axes in enumerate(split):
        if axes:
            value = own_shard(m, value, axes, dim)
    return value


def _to_global(m: Machine, value: Value, split: Split, manual: set[int]) -> Value:
    """The tensor of which these are the shards, on all devices along manual axes.

    Along an axis that does not split it, devices have it alike, or each its own.
    """
    for dim, axes in enumerate(split):
        if axes:
            value = value.with_data(gathered(m, value, axes, dim))
    first = tuple(slice(0, 1) if axis in manual else slice(None) for axis in range(m.axes))
    alike = np.array_equal(np.broadcast_to(value.data[first], value.data.shape), value.data)
    return value.with_data(value.data[first] if alike else value.data)


@runs("stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.reduce_scatter",
      "stablehlo.all_to_all", "stablehlo.collective_permute", "stablehlo.collective_broadcast",
      "stablehlo.partition_id")  # fmt: skip
def _by_groups(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    """A collective of devices by their numbers: on a grid of one axis that has them in order."""
    numbers = tuple(range(len(m.devices.devices)))
    if tuple(sorted(m.devices.devices)) != numbers:
        raise m.unproven(op, "is on devices that are not numbered from 0")
    if op.name != "stablehlo.partition_id" and _is_over_replicas(m, op):
        raise m.unproven(op, "has no channel, so that it is of replicas, of which there is one")
    flat = m.on(Grid((len(numbers),), numbers))
    if flat.active is not None and not np.all(flat.active):
        raise m.unproven(op, "is in a branch that not all devices take")
    if any(np.any(bits != bits.reshape(-1)[0]) for bits in flat.choices):
        raise m.unproven(op, "is in a branch that devices choose by numbers of their own")
    if op.name == "stablehlo.partition_id":
        return [m.moved(Value(np.arange(len(numbers)), False), flat)]
    given = [flat.moved(value, m) for value in values]
    spread = [each.with_data(flat.spread(each.data, flat.grid)) for each in given]
    if op.name == "stablehlo.collective_permute":
        results = [_permuted(each, op) for each in spread]
    else:
        results = [_in_groups(flat, op, each, number) for number, each in enumerate(spread)]
    return [m.moved(each, flat) for each in results]


def _is_over_replicas(m: Machine, op: Op) -> bool:
    """Whether devices that XLA runs are replicas to it; in a manual computation none are."""
    functions = m.program.functions.values()
    if not any("tiles" in each for function in functions for each in function.result_attributes):
        return False
    handle = re.search(r"handle = (\d+)", str(op.attributes.get("channel_handle", "")))
    return handle is None or int(handle[1]) < 1


def _permuted(value: Value, op: Op) -> Value:
    result = np.zeros_like(value.data)
    for source, target in np.asarray(op.attributes["source_target_pairs"]).reshape(-1, 2).tolist():
        result[target] = value.data[source]
    return value.with_data(result)


def _in_groups(m: Machine, op: Op, value: Value, number: int) -> Value:
    groups = _groups(m, op)
    if groups.size == 0:
        groups = np.arange(len(value.data)).reshape(1, -1)
    results: list[Data | None] = [None] * len(value.data)
    for group in groups.tolist():
        members = [member for member in group if member >= 0]
        shared = _together(m, op, value.with_data(value.data[members]), number)
        for member, data in zip(members, shared, strict=True):
            results[member] = data
    if any(each is None for each in results):
        raise m.unproven(op, "has groups that leave out devices")
    return value.with_data(np.stack([each for each in results if each is not None]))


def _groups(m: Machine, op: Op) -> Data:
    """The devices of each group, by their numbers: listed, or those along axes of a mesh."""
    given = op.attributes["replica_groups"]
    if isinstance(given, np.ndarray):
        return given.reshape(1, -1) if given.ndim < 2 else given
    named = re.search(r"mesh = @([\w.$-]+), axes = \[(.*)\]", str(given))
    grid = m.program.grids.get(named[1]) if named is not None else None
    if named is None or grid is None:
        raise m.unproven(op, f"has groups {given}, which the prover cannot read")
    names = m.program.axis_names[named[1]]
    parts = [
        (axis := names.index(name), int(before or 1), int(size or grid.shape[axis]))
        for name, before, size in _AXIS.findall(named[2])
    ]
    return np.array(groups_along(grid.devices, grid.shape, parts))


_AXIS = re.compile(r'name = "([^"]*)"(?:, sub_axis_info = \((\d+)\)(\d+))?')


def _together(m: Machine, op: Op, value: Value, number: int) -> Sequence[Data]:
    """What each member of a group gets; the members are the first dimension."""
    data, count = value.data, len(value.data)
    if op.name == "stablehlo.all_gather":
        return [np.concatenate(list(data), axis=op.attributes["all_gather_dim"])] * count
    if op.name == "stablehlo.collective_broadcast":
        return [data[0]] * count
    if op.name == "stablehlo.all_to_all":
        split, concat = op.attributes["split_dimension"], op.attributes["concat_dimension"]
        parts = [np.split(each, count, axis=split) for each in data]
        return [np.concatenate([part[n] for part in parts], axis=concat) for n in range(count)]
    kind = combiner(op.body)
    if kind is None:
        raise m.unproven(op, "reduces by a body that the prover does not know")
    total = reduced(m, kind, value, op.types[number], [0]).data
    if op.name == "stablehlo.all_reduce":
        return [total] * count
    return np.split(total, count, axis=op.attributes["scatter_dimension"])
