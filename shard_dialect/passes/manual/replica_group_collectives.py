"""Translate the collectives in manual computations to collectives of the local form.

    %1 = "stablehlo.all_reduce"(%0) {replica_groups = dense<[[0, 2], [1, 3]]>} ({add})
      becomes, on a grid of 2x2
    %1 = shard.all_reduce %0 on @g grid_axes = [0]

The numbers in `replica_groups`, `source_target_pairs` and `partition_id` are ranks. `partition_id`
becomes a slice of a constant table, of which each device takes its entry. A device to which a
permutation sends nothing gets zeros. Upstream's own collectives stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Any, cast

from shard_dialect.collectives import LocalStep, Permute
from shard_dialect.collectives.collective_table import RECORDS
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.building.loops_and_masks import as_index
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.mesh.annotation_ops import cluster_name, grid_named_by, manual_axes_at
from shard_dialect.ir.mesh.attributes import i64_array
from shard_dialect.ir.mesh.grid_queries import queried_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.local_collectives import (
    POSITIONS,
    UNREAD,
    is_local,
    is_of_stablehlo,
    read_local,
    write_local,
)
from shard_dialect.ir.walk import walk
from shard_dialect.model import Axes, Grid, Reduction, ShardingError
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.ops.partitioned_op import device_indices
from shard_dialect.ops.stablehlo.attribute_reading import integer
from shard_dialect.ops.stablehlo.reduction_rules import combiner
from shard_dialect.passes.partition.partition_collectives import own_number
from shard_dialect.planner import axes_of_groups, moves_of_pairs


@dataclass(frozen=True)
class DeviceCollective:
    """A step for each operand; devices at the positions `unsent` of their group get zeros."""

    step: LocalStep
    unsent: tuple[int, ...] = ()


def on_global_tensors(op: ir.Operation) -> str:
    """The error text for such an op in a function that is not of the local form."""
    return (
        f"'{op.name}' op is of the local form: here tensors are global, and what it gives differs "
        f"between devices{ONE_DEVICE}"
    )


ONE_DEVICE = '; if the function is one device\'s, give it {mesh.form = "local"}'
"""The way out for a function whose collectives are between devices."""


def check_between_devices(op: ir.Operation, grid: Grid) -> None:
    """Raise `ShardingError` unless the op is supported and uses manual axes only."""
    manual = manual_axes_at(op)
    if op.name in UNREAD:
        raise ShardingError(f"'{op.name}' op is not supported yet: no collective does the same")
    if op.name in ("stablehlo.partition_id", *POSITIONS):
        named = list(op.attributes["axes"]) if "axes" in op.attributes else []
        among = named or range(grid.rank)
        axes: Axes = tuple(axis for axis in among if grid.axes_size((axis,)) > 1)
    elif op.name == "mesh.idx":
        axes = queried_axes(op, grid)
    elif is_local(op):
        step = read_local(op.name, op.attributes)
        if step is None:
            raise ShardingError(f"'{op.name}' op is not supported yet in a manual computation")
        axes = step[1].axes
    else:
        axes = _read(op, grid, manual).step.axes
    free = sorted({axis for axis in axes if isinstance(axis, int)} - set(manual))
    if free:
        raise ShardingError(
            f"'{op.name}' op tells devices apart along axes {free} of grid {grid}, which are not "
            f"manual here: manual axes are {list(manual)}"
        )


def refuse_stablehlo_collectives(function: ir.Operation) -> None:
    """Raise for what StableHLO says of devices, in a function of a module without a grid."""
    for op in walk(function):
        if is_of_stablehlo(op.name):
            raise error_at(
                op.location,
                f"'{op.name}' op is on devices of no grid: declare one, as in "
                "`shard.grid @grid(shape = 2x4)`",
            )


def axes_of_collective(op: ir.Operation, grid: Grid) -> Axes:
    """The axes along which a collective of StableHLO goes. Raises `ShardingError`."""
    if op.name in UNREAD:
        raise ShardingError(f"'{op.name}' op is not supported: no collective does the same")
    return _read(op, grid, range(grid.rank)).step.axes


def move_to_grid(op: ir.Operation, of: Refinement, manual: Sequence[int]) -> None:
    """Let an op on the devices of a grid be on the same ones of a finer grid, on all its devices.

    Raises `ShardingError` for an op of upstream's, which names a grid and no stage.
    """
    if is_local(op) or op.name in POSITIONS:
        raise ShardingError(
            f"'{op.name}' op is in a manual computation on a part of a grid: use StableHLO's "
            "collectives, or mesh.idx"
        )
    if op.name in ("mesh.idx", "stablehlo.partition_id"):
        asked = queried_axes(op, of.grid)
        attributes = {
            "cluster": ir.FlatSymbolRefAttr.get(of.fine.name),
            "mesh_axis": i64_array(cast("Sequence[int]", of.refined_axes(asked))),
        }
        with ir.InsertionPoint(op), op.location:
            own = build.create_value("mesh.idx", ir.IndexType.get(), [], attributes)
            if op.name == "stablehlo.partition_id":
                own = _as_tensor(own, op.results[0].type)
        replace_op(op, own)
        return
    collective = _read(op, of.grid, manual)
    step = collective.step
    groups: Sequence[Sequence[int]] = of.fine.groups(of.refined_axes(step.axes))
    if isinstance(step, Permute):
        moves = [each for each in enumerate(step.permutation) if each[1] not in collective.unsent]
        groups = [(group[a], group[b]) for group in groups for a, b in moves]
    key = "source_target_pairs" if isinstance(step, Permute) else "replica_groups"
    numbers = [*chain.from_iterable(groups)]
    shape = [len(groups), len(numbers) // max(len(groups), 1)]
    op.attributes[key] = build.dense(numbers, build.integer(64), shape)


def _as_tensor(index: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    number = build.cast("arith.index_cast", index, build.integer(32))
    scalar = ir.RankedTensorType.get([], number.type)
    tensor = build.create_value("tensor.from_elements", scalar, [number])
    return _stablehlo("convert", type_, tensor)


def write_stablehlo_collectives(function: ir.Operation, shardings: Shardings) -> None:
    """Replace StableHLO's collectives in a function of the local form by those of this form."""
    names = sorted(shardings.grids)
    for op in [each for each in walk(function) if is_of_stablehlo(each.name)]:
        with located(op):
            if "mesh_cluster" not in function.attributes and len(names) != 1:
                raise ShardingError(
                    f"'{op.name}' op is on devices of no grid: give the function "
                    "{mesh_cluster = @grid}"
                )
            named = "mesh_cluster" in function.attributes
            grid = shardings.grid(cluster_name(function) if named else names[0])
            if op.name in UNREAD:
                raise ShardingError(f"'{op.name}' op is not supported: no collective does the same")
            write_device_collective(op, grid, shardings, range(grid.rank))


def write_device_collective(
    op: ir.Operation, grid: Grid, shardings: Shardings, manual: Sequence[int]
) -> None:
    """Replace an op on shards along the axes `manual` by ops of the local form."""
    if is_local(op) or op.name in POSITIONS:
        return
    with ir.InsertionPoint(op), op.location:
        if op.name == "mesh.idx":
            grid = shardings.grid(grid_named_by(op))
            results = [_index(queried_axes(op, grid), grid)]
        elif op.name == "stablehlo.partition_id":
            results = [_rank(op.results[0].type, grid)]
        else:
            collective = _read(op, grid, manual)
            pairs = zip(op.operands, op.results, strict=True)
            results = [_written(collective, value, result.type, grid) for value, result in pairs]
    replace_op(op, *results)


def _written(collective: DeviceCollective, value: ir.Value, type_: ir.Type, grid: Grid) -> ir.Value:
    step = collective.step
    if grid.axes_size(step.axes) == 1:
        return value
    if step.joined_dim is not None and step.joined_dim == step.cut_dim:
        return _exchanged_in_place(step, step.joined_dim, value, grid)
    if isinstance(step, Permute) and step.permutation == tuple(range(len(step.permutation))):
        result = value
    else:
        result = write_local(step, grid.name, value, type_)
    return _zeroed(result, collective, grid) if collective.unsent else result


def _exchanged_in_place(step: LocalStep, dim: int, value: ir.Value, grid: Grid) -> ir.Value:
    """An all-to-all along one dimension: reshape so that a new dimension numbers the devices."""
    type_ = value.type
    shape, count = list(type_.shape), grid.axes_size(step.axes)
    shape_by_device = [*shape[:dim], count, 1, shape[dim] // count, *shape[dim + 1 :]]
    by_device = _stablehlo("reshape", build.resized(type_, shape_by_device), value)
    shape_by_device[dim : dim + 2] = [1, count]
    joined = replace(cast("Any", step), **{step.joins: dim + 1})
    exchanged = write_local(joined, grid.name, by_device, build.resized(type_, shape_by_device))
    return _stablehlo("reshape", type_, exchanged)


def _zeroed(value: ir.Value, collective: DeviceCollective, grid: Grid) -> ir.Value:
    """Replace `value` by zeros on the devices to which nothing was sent."""
    count = grid.axes_size(collective.step.axes)
    unsent = set(collective.unsent)
    sent = [int(position not in unsent) for position in device_indices(count)]
    own = _own(sent, collective.step.axes, grid)
    bits = ir.RankedTensorType.get([], build.integer(1))
    was_sent = _stablehlo("convert", bits, _scalar(own))
    type_ = value.type
    zeros = reductions.identity_tensor("sum", type_)
    return _stablehlo("select", type_, was_sent, value, zeros)


def _rank(type_: ir.RankedTensorType, grid: Grid) -> ir.Value:
    """This device's rank, as a tensor of no dimensions."""
    own = _own(device_indices(grid.size), tuple(range(grid.rank)), grid)
    return _stablehlo("convert", type_, _scalar(own))


def _index(axes: Axes, grid: Grid) -> ir.Value:
    return as_index(_own(device_indices(grid.axes_size(axes)), axes, grid))


def _own(numbers: Sequence[int], axes: Axes, grid: Grid) -> ir.Value:
    """Of `numbers`, one per position along `axes`, this device's, as a `tensor<1xi32>`."""
    return own_number(numbers, axes, grid.name, width=32)


def _scalar(value: ir.Value) -> ir.Value:
    return _stablehlo("reshape", build.resized(value.type, []), value)


def _stablehlo(name: str, type_: ir.Type, *operands: ir.Value) -> ir.Value:
    return build.create_value(f"stablehlo.{name}", type_, operands)


# Reading


def _read(op: ir.Operation, grid: Grid, manual: Sequence[int]) -> DeviceCollective:
    found = _READ[op.name](_Reader(op, grid, manual))
    collective = found if isinstance(found, DeviceCollective) else DeviceCollective(found)
    count = grid.axes_size(collective.step.axes)
    for operand, result in zip(op.operands, op.results, strict=True):
        result_shape = collective.step.local_shape_after(tuple(operand.type.shape), count)
        if prod(result_shape) != prod(tuple(result.type.shape)):
            raise ShardingError(
                f"'{op.name}' op makes {result.type} of {operand.type}, but among groups of "
                f"{count} devices it would be of shape {list(result_shape)}"
            )
    return collective


@dataclass(frozen=True)
class _Reader:
    """Reads the attributes of an op of StableHLO, for the step that it is."""

    op: ir.Operation
    grid: Grid
    manual: Sequence[int]

    def dim(self, name: str) -> int:
        """A dimension."""
        return integer(self.op, name)

    def axes(self, *, is_ordered: bool = True) -> Axes:
        """The axes along which `replica_groups` are the groups; raise if there are none."""
        attribute = self.op.attributes["replica_groups"]
        if not isinstance(attribute, ir.DenseElementsAttr):
            raise ShardingError(f"'{self.op.name}' op has groups that are not listed: {attribute}")
        count, size = attribute.type.shape
        numbers = _numbers(attribute)
        groups = [numbers[at : at + size] for at in range(0, count * size, size)] if size else []
        axes = axes_of_groups(groups, self.grid, is_ordered=is_ordered)
        if axes is None:
            order = ", in the order of these axes" if is_ordered else ""
            raise ShardingError(
                f"'{self.op.name}' op has replica_groups {groups}: expected all groups of devices "
                f"along some axes of grid {self.grid}{order}"
            )
        return axes

    def reduction(self) -> Reduction:
        """The reduction in the op's region."""
        kind = combiner(self.op, 1)
        if kind is None:
            raise ShardingError(
                f"'{self.op.name}' op joins elements of {self.op.operands[0].type} in a way that "
                "no collective does: expected one sum, product, maximum, minimum or bitwise op, "
                "of numbers"
            )
        return kind

    def permuted(self, step: type[Permute]) -> DeviceCollective:
        """The permutation that the op's pairs are."""
        numbers = _numbers(self.op.attributes["source_target_pairs"])
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        moves = moves_of_pairs(pairs, self.grid, self.manual)
        if moves is None:
            raise ShardingError(
                f"'{self.op.name}' op has source_target_pairs {[list(pair) for pair in pairs]}: "
                f"expected the same within all groups of devices along some axes of grid "
                f"{self.grid}"
            )
        return DeviceCollective(step(moves.axes, moves.permutation), moves.unsent)


def _numbers(attribute: ir.DenseElementsAttr) -> list[int]:
    if attribute.is_splat:
        return [attribute.get_splat_value().value] * prod(attribute.type.shape)
    return list(attribute)


_READ: dict[str, Callable[[_Reader], DeviceCollective | LocalStep]] = {
    f"stablehlo.{record.of_stablehlo[0]}": record.of_stablehlo[1]
    for record in RECORDS.values()
    if record.of_stablehlo
}
