"""Translate `mesh` collectives of the distributed form to `shard` collectives of the local form.

Uneven shards, and shards that begin at offsets, are padded. So a tensor is padded before it is
split, and the padding is removed after shards are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.masking import as_index
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.mesh.mesh_collectives import Collective, read_collective
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.local_collectives import write_local
from shard_dialect.model import (
    AllGather,
    AllSlice,
    AllToAll,
    Axes,
    ChangeOffsets,
    CropHalo,
    Grid,
    Permute,
    ReduceScatter,
    Sharding,
    Step,
    UpdateHalo,
)
from shard_dialect.passes.partition.op_shards import own_number
from shard_dialect.planner import bytes_moved, nests, plan
from shard_dialect.rules.partitioned_op import device_indices


def exact_steps(op: ir.Operation, shardings: Shardings) -> Collective:
    """What a `mesh` op does, by other steps where its own do not give the shards of its result.

    Splitting uneven shards further does not, if these do not nest: 3, 2 elements become 2, 1 | 1, 1
    and not 2, 2 | 1, 0. An op that is several steps, such as a gather along a major axis, is the
    cheapest steps between its shardings.
    """
    collective = read_collective(op)
    if not op.results[0].type.has_static_shape:
        return collective
    source, steps = collective.source, collective.steps
    shape, grid = tuple(op.results[0].type.shape), shardings.grid(source.grid)
    ends = (source, collective.target)
    is_plain = not any(each.halos or each.offsets for each in ends)
    if len(steps) > 1 and is_plain and collective.target.grid == source.grid:
        best = plan(source, collective.target, shape, 1, grid, sub_axes=False)
        if best.bytes_moved < bytes_moved(steps, source, shape, 1, grid):
            return replace(collective, steps=best.steps)
    now = source
    for step in steps:
        before, now = now, step.after(now)
        if before.grid == now.grid and not nests(before, now, shape, grid):
            # Costs are compared with one another, so the size of elements does not matter.
            best = plan(source, collective.target, shape, 1, grid, sub_axes=False)
            return replace(collective, steps=best.steps)
    return collective


def partition_collective(op: ir.Operation, collective: Collective, shardings: Shardings) -> None:
    """Replace a `mesh` op, read before its operand was partitioned, by its steps' `shard` ops."""
    now = collective.source
    global_type, value = op.results[0].type, op.operands[0]
    with ir.InsertionPoint(op), op.location:
        for step in collective.steps:
            before, now = now, step.after(now)
            grid = shardings.grid(before.grid)
            type_ = shardings.local(shardings.typed(global_type, now))
            may_be_splat = isinstance(step, AllSlice) and not any(step.halo)
            splat = _splat_constant(value) if may_be_splat else None
            if splat is not None:
                value = build.constant_like(value, type_)
                continue
            if isinstance(step, UpdateHalo):
                content = reductions.identity_value(step.fill, type_.element_type)
                value = build.embedded(value, type_, step.dim, step.low, content)
            elif isinstance(step, CropHalo):
                begin = before.halo(step.dim)[0] - step.low
                value = build.extract_slice(value, begin, type_.shape[step.dim], step.dim)
            stays = isinstance(step, Permute) and list(step.permutation) == sorted(step.permutation)
            has_halo = isinstance(step, AllSlice) and any(step.halo)
            if (grid.axes_size(step.axes) > 1 and not stays) or has_halo:
                with located(op):
                    value = _written(step, before, grid, value, global_type, type_)
    op.results[0].replace_all_uses_with(value)
    source = op.operands[0].owner
    op.erase()
    if not isinstance(source, ir.Block) and _splat_constant(source.results[0]) is not None:
        _drop_if_unused(source.operation)


def _written(
    step: Step,
    before: Sharding,
    grid: Grid,
    value: ir.Value,
    global_type: ir.RankedTensorType,
    type_: ir.RankedTensorType,
) -> ir.Value:
    """Write the op of a step, from a tensor sharded as `before` to the local `type_`."""
    if isinstance(step, AllSlice) and step.offsets:
        return _sliced_at_offsets(step, grid, value, type_)
    if isinstance(step, AllSlice) and any(step.halo):
        return _sliced_with_halo(step, grid, value, type_)
    if isinstance(step, ChangeOffsets):
        return _moved(step, grid, value, type_)
    count = grid.axes_size(step.axes)
    local_shape = list(type_.shape)
    if isinstance(step, AllSlice | ReduceScatter | AllToAll):
        dim = step.target_dim if isinstance(step, AllToAll) else step.dim
        value = _padded(value, dim, local_shape[dim] * count)
    if isinstance(step, AllGather | AllToAll):
        dim = step.source_dim if isinstance(step, AllToAll) else step.dim
        local_shape[dim] = value.type.shape[dim] * count
    written = write_local(step, grid.name, value, build.resized(type_, local_shape))
    if isinstance(step, AllGather) and before.offsets and before.offsets[step.dim]:
        bounds = before.bounds(step.dim, global_type.shape[step.dim], grid)
        return _closed_up(written, step.dim, bounds, type_)
    for dim, size in enumerate(type_.shape):
        if size != local_shape[dim]:
            written = build.extract_slice(written, 0, size, dim)
    return written


def _sliced_at_offsets(
    step: AllSlice, grid: Grid, value: ir.Value, type_: ir.RankedTensorType
) -> ir.Value:
    """Slice at this device's offset, with the size of the largest shard."""
    size = type_.shape[step.dim]
    begins = [offset or 0 for offset in step.offsets[:-1]]
    value = _padded(value, step.dim, value.type.shape[step.dim] + size)
    begin = as_index(own_number(begins, step.axes, grid.name))
    return build.extract_slice(value, begin, size, step.dim)


def _sliced_with_halo(
    step: AllSlice, grid: Grid, value: ir.Value, type_: ir.RankedTensorType
) -> ir.Value:
    """Slice at this device's offset, from the tensor with the fill around it."""
    low, high = step.halo
    count, size = grid.axes_size(step.axes), type_.shape[step.dim] - low - high
    shape = list(value.type.shape)
    shape[step.dim] = low + count * size + high
    content = reductions.identity_value(step.fill, type_.element_type)
    value = build.embedded(value, build.resized(type_, shape), step.dim, low, content)
    begins = [size * device for device in device_indices(count)]
    begin = as_index(own_number(begins, step.axes, grid.name))
    return build.extract_slice(value, begin, type_.shape[step.dim], step.dim)


def _moved(
    step: ChangeOffsets, grid: Grid, value: ir.Value, type_: ir.RankedTensorType
) -> ir.Value:
    """Exchange what changes devices: a slice for each distance, all as long as the longest.

    Behind its own elements a slice has others, which the slices that follow it in the tensor
    overwrite. What a device has no place for comes after its shard, and is cut off.
    """
    dim, size, count = step.dim, type_.shape[step.dim], grid.axes_size(step.axes)
    messages, devices = step.messages(), device_indices(count)
    most = max(messages.values(), default=0)
    value = _padded(value, dim, value.type.shape[dim] + most)
    shape = list(type_.shape)
    shape[dim] = size + most
    moved = build.empty(build.resized(type_, shape)).results[0]
    for distance in sorted(messages, reverse=True):  # as the elements follow in the tensor
        overlaps = [step.overlap(device, distance) for device in devices]
        begins = [
            begin - step.source[device] if end > begin else 0
            for device, (begin, end) in zip(devices, overlaps, strict=True)
        ]
        begin = _own_index(begins, step.axes, grid)
        sent = build.extract_slice(value, begin, messages[distance], dim)
        if distance:
            to = tuple((device + distance) % count for device in devices)
            sent = write_local(Permute(step.axes, to), grid.name, sent, sent.type)
        places = [size] * count
        for device, (begin, end) in zip(devices, overlaps, strict=True):
            if end > begin:
                places[device + distance] = begin - step.target[device + distance]
        place = _own_index(places, step.axes, grid)
        moved = build.insert_slice_at(moved, sent, dim, place)
    return build.extract_slice(moved, 0, size, dim)


def _own_index(numbers: Sequence[int], axes: Axes, grid: Grid) -> int | ir.Value:
    """Of `numbers`, one per device along `axes`, this device's."""
    if len(set(numbers)) == 1:
        return numbers[0]
    return as_index(own_number(numbers, axes, grid.name))


def _closed_up(
    gathered: ir.Value, dim: int, bounds: Sequence[int], type_: ir.RankedTensorType
) -> ir.Value:
    """Remove the padding between gathered shards, which follow one another."""
    value = build.empty(type_).results[0]
    room = gathered.type.shape[dim] // (len(bounds) - 1)
    for device, (begin, end) in enumerate(pairwise(bounds)):
        if end > begin:
            shard = build.extract_slice(gathered, device * room, end - begin, dim)
            value = build.insert_slice_at(value, shard, dim, begin)
    return value


def _padded(value: ir.Value, dim: int, size: int) -> ir.Value:
    """Pad a dimension at its end to this size."""
    shape = list(value.type.shape)
    if shape[dim] == size:
        return value
    shape[dim] = size
    into = build.resized(value.type, shape)
    return build.embedded(value, into, dim, 0, reductions.identity_value("sum", into.element_type))


def _splat_constant(value: ir.Value) -> ir.Attribute | None:
    attribute = build.constant_value(value)
    return attribute if attribute is not None and build.is_splat(attribute) else None


def _drop_if_unused(op: ir.Operation) -> None:
    if not any(True for _ in op.results[0].uses):
        op.erase()
