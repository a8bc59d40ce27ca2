"""Translate the collectives in manual computations to collectives of the local form.

    %1 = "stablehlo.all_reduce"(%0) {replica_groups = dense<[[0, 2], [1, 3]]>} ({add})
      becomes, on a grid of 2x2
    %1 = shard.all_reduce %0 on @g grid_axes = [0]

The numbers in `replica_groups`, `source_target_pairs` and `partition_id` are ranks. `partition_id`
becomes a slice of a constant table, of which each device takes its entry. A device to which a
permutation sends nothing gets zeros. Upstream's own collectives stay as they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.masking import as_index
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.mesh.annotation_ops import cluster_name, grid_named_by
from shard_dialect.ir.mesh.attributes import STAGES
from shard_dialect.ir.mesh.grid_queries import queried_axes
from shard_dialect.ir.mesh.manual_computation import manual_axes_at
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.local_collectives import LOCAL_COLLECTIVES, read_local, write_local
from shard_dialect.ir.walk import walk
from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Axes,
    Grid,
    Permute,
    ReduceScatter,
    Reduction,
    ShardingError,
    Step,
)
from shard_dialect.planner import axes_of_groups, moves_of_pairs
from shard_dialect.rules.partitioned_op import device_indices
from shard_dialect.rules.stablehlo.attribute_reading import integer
from shard_dialect.rules.stablehlo.combiner import combiner

_OF_LOCAL_FORM = (
    "shard.neighbors_linear_indices",
    "shard.process_linear_index",
    "shard.process_multi_index",
)
POSITION_OPS = ("mesh.idx", "stablehlo.partition_id", *_OF_LOCAL_FORM)
"""Ops that return the device's position; those of the local form stay as they are."""


@dataclass(frozen=True)
class DeviceCollective:
    """A step for each operand; devices at the positions `unsent` of their group get zeros."""

    step: Step
    unsent: tuple[int, ...] = ()


def is_between_devices(op: ir.Operation) -> bool:
    """Whether an op is about single devices, so that it has no meaning on global tensors."""
    return op.name in _READ or op.name in _UNKNOWN or op.name in POSITION_OPS or is_local(op)


def on_global_tensors(op: ir.Operation) -> str:
    """What is wrong with such an op in a function that is not of the local form."""
    return (
        f"'{op.name}' op is of the local form: here tensors are global, and what it gives differs "
        'between devices; if the function is one device\'s, give it {mesh.form = "local"}'
    )


def is_local(op: ir.Operation) -> bool:
    """Whether it is a collective of the local form."""
    return op.name in LOCAL_COLLECTIVES or (
        op.name == "mesh.collective_permute"
        and "cluster" in op.attributes
        and STAGES not in op.attributes
    )


def check_between_devices(op: ir.Operation, grid: Grid) -> None:
    """Raise `ShardingError` unless the op is supported and uses manual axes only."""
    manual = manual_axes_at(op)
    if op.name in _UNKNOWN:
        raise ShardingError(f"'{op.name}' op is not supported yet: no collective does the same")
    if op.name in ("stablehlo.partition_id", *_OF_LOCAL_FORM):
        named = list(op.attributes["axes"]) if "axes" in op.attributes else []
        among = named or range(grid.rank)
        axes: Axes = tuple(axis for axis in among if grid.axes_size((axis,)) > 1)
    elif op.name == "mesh.idx":
        axes = queried_axes(op, grid)
    elif is_local(op):
        step = read_local(op.name, {key: op.attributes[key] for key in op.attributes})
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
        if is_of_stablehlo(op):
            raise error_at(
                op.location,
                f"'{op.name}' op is on devices of no grid: declare one, as in "
                "`shard.grid @grid(shape = 2x4)`",
            )


def is_of_stablehlo(op: ir.Operation) -> bool:
    """Whether it is a collective of StableHLO, or asks for the device's number."""
    return op.name in (*_READ, *_UNKNOWN, "stablehlo.partition_id")


def axes_of_collective(op: ir.Operation, grid: Grid) -> Axes:
    """The axes along which a collective of StableHLO goes. Raises `ShardingError`."""
    if op.name in _UNKNOWN:
        raise ShardingError(f"'{op.name}' op is not supported: no collective does the same")
    return _read(op, grid, range(grid.rank)).step.axes


def write_stablehlo_collectives(function: ir.Operation, shardings: Shardings) -> None:
    """Replace StableHLO's collectives in a function of the local form by those of this form."""
    names = sorted(shardings.grids)
    for op in walk(function):
        if not is_of_stablehlo(op):
            continue
        with located(op):
            if "mesh_cluster" not in function.attributes and len(names) != 1:
                raise ShardingError(
                    f"'{op.name}' op is on devices of no grid: give the function "
                    "{mesh_cluster = @grid}"
                )
            named = "mesh_cluster" in function.attributes
            grid = shardings.grid(cluster_name(function) if named else names[0])
            if op.name in _UNKNOWN:
                raise ShardingError(f"'{op.name}' op is not supported: no collective does the same")
            write_device_collective(op, grid, shardings, range(grid.rank))


def write_device_collective(
    op: ir.Operation, grid: Grid, shardings: Shardings, manual: Sequence[int]
) -> None:
    """Replace an op on shards along the axes `manual` by ops of the local form."""
    if is_local(op) or op.name in _OF_LOCAL_FORM:
        return
    with ir.InsertionPoint(op), op.location:
        if op.name == "mesh.idx":
            grid = shardings.grid(grid_named_by(op, "cluster"))
            results = [_index(queried_axes(op, grid), grid)]
        elif op.name == "stablehlo.partition_id":
            results = [_rank(op.results[0].type, grid)]
        else:
            collective = _read(op, grid, manual)
            pairs = zip(op.operands, op.results, strict=True)
            results = [_written(collective, value, result.type, grid) for value, result in pairs]
    for result, value in zip(op.results, results, strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def _written(collective: DeviceCollective, value: ir.Value, type_: ir.Type, grid: Grid) -> ir.Value:
    step = collective.step
    if grid.axes_size(step.axes) == 1:
        return value
    if isinstance(step, AllToAll) and step.source_dim == step.target_dim:
        return _exchanged_in_place(step, value, grid)
    if isinstance(step, Permute) and step.permutation == tuple(range(len(step.permutation))):
        result = value
    else:
        result = write_local(step, grid.name, value, type_)
    return _zeroed(result, collective, grid) if collective.unsent else result


def _exchanged_in_place(step: AllToAll, value: ir.Value, grid: Grid) -> ir.Value:
    """An all-to-all along one dimension: reshape so that a new dimension numbers the devices."""
    type_ = value.type
    shape, dim, count = list(type_.shape), step.source_dim, grid.axes_size(step.axes)
    shape_by_device = [*shape[:dim], count, 1, shape[dim] // count, *shape[dim + 1 :]]
    by_device = _stablehlo("reshape", build.resized(type_, shape_by_device), value)
    shape_by_device[dim : dim + 2] = [1, count]
    exchanged = write_local(
        AllToAll(dim + 1, dim, step.axes),
        grid.name,
        by_device,
        build.resized(type_, shape_by_device),
    )
    return _stablehlo("reshape", type_, exchanged)


def _zeroed(value: ir.Value, collective: DeviceCollective, grid: Grid) -> ir.Value:
    """Replace `value` by zeros on the devices to which nothing was sent."""
    count = grid.axes_size(collective.step.axes)
    unsent = set(collective.unsent)
    sent = [int(position not in unsent) for position in device_indices(count)]
    own = _own(sent, collective.step.axes, grid)
    bits = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
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
    integer32 = ir.IntegerType.get_signless(32)
    table = build.scalar(ir.DenseElementsAttr.get(array("i", numbers), type=integer32)).results[0]
    if len(numbers) == 1:
        return table
    return write_local(AllSlice(0, axes), grid.name, table, build.resized(table.type, [1]))


def _scalar(value: ir.Value) -> ir.Value:
    return _stablehlo("reshape", build.resized(value.type, []), value)


def _stablehlo(name: str, type_: ir.Type, *operands: ir.Value) -> ir.Value:
    return build.create(f"stablehlo.{name}", [type_], operands).results[0]


# Reading


def _read(op: ir.Operation, grid: Grid, manual: Sequence[int]) -> DeviceCollective:
    collective = _READ[op.name](op, grid, manual)
    count = grid.axes_size(collective.step.axes)
    for operand, result in zip(op.operands, op.results, strict=True):
        shape = tuple(operand.type.shape)
        result_shape = collective.step.local_shape_after(shape, count)
        if (
            isinstance(collective.step, AllToAll)
            and collective.step.source_dim == collective.step.target_dim
        ):
            result_shape = shape
        if prod(result_shape) != prod(tuple(result.type.shape)):
            raise ShardingError(
                f"'{op.name}' op makes {result.type} of {operand.type}, but among groups of "
                f"{count} devices it would be of shape {list(result_shape)}"
            )
    return collective


def _groups(op: ir.Operation, grid: Grid, *, is_ordered: bool) -> Axes:
    """The axes along which the op's `replica_groups` are the groups; raise if there are none."""
    attribute = op.attributes["replica_groups"]
    if not isinstance(attribute, ir.DenseElementsAttr):
        raise ShardingError(f"'{op.name}' op has groups that are not listed: {attribute}")
    count, size = attribute.type.shape
    numbers = (
        [attribute.get_splat_value().value] * (count * size)
        if attribute.is_splat
        else list(attribute)
    )
    groups = [numbers[at : at + size] for at in range(0, count * size, size)] if size else []
    axes = axes_of_groups(groups, grid, is_ordered=is_ordered)
    if axes is None:
        order = ", in the order of these axes" if is_ordered else ""
        raise ShardingError(
            f"'{op.name}' op has replica_groups {groups}: expected all groups of devices along "
            f"some axes of grid {grid}{order}"
        )
    return axes


def _all_reduce(op: ir.Operation, grid: Grid, manual: Sequence[int]) -> DeviceCollective:
    return DeviceCollective(AllReduce(_groups(op, grid, is_ordered=False), _reduction(op)))


def _reduction(op: ir.Operation) -> Reduction:
    kind = combiner(op, 1)
    if kind is None:
        raise ShardingError(
            f"'{op.name}' op joins elements of {op.operands[0].type} in a way that no collective "
            "does: expected one sum, product, maximum, minimum or bitwise op, of numbers"
        )
    return kind


def _all_gather(op: ir.Operation, grid: Grid, manual: Sequence[int]) -> DeviceCollective:
    axes = _groups(op, grid, is_ordered=True)
    return DeviceCollective(AllGather(integer(op, "all_gather_dim"), axes))


def _reduce_scatter(op: ir.Operation, grid: Grid, manual: Sequence[int]) -> DeviceCollective:
    axes = _groups(op, grid, is_ordered=True)
    return DeviceCollective(ReduceScatter(integer(op, "scatter_dimension"), axes, _reduction(op)))


def _all_to_all(op: ir.Operation, grid: Grid, manual: Sequence[int]) -> DeviceCollective:
    axes = _groups(op, grid, is_ordered=True)
    source, target = (integer(op, f"{name}_dimension") for name in ("concat", "split"))
    return DeviceCollective(AllToAll(source, target, axes))


def _collective_permute(op: ir.Operation, grid: Grid, manual: Sequence[int]) -> DeviceCollective:
    attribute = op.attributes["source_target_pairs"]
    numbers = list(attribute)
    if attribute.is_splat:
        numbers = [attribute.get_splat_value().value] * prod(attribute.type.shape)
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    moves = moves_of_pairs(pairs, grid, manual)
    if moves is None:
        raise ShardingError(
            f"'{op.name}' op has source_target_pairs {[list(pair) for pair in pairs]}: expected "
            f"the same within all groups of devices along some axes of grid {grid}"
        )
    return DeviceCollective(Permute(moves.axes, moves.permutation), moves.unsent)


_READ: dict[str, Callable[[ir.Operation, Grid, Sequence[int]], DeviceCollective]] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.collective_permute": _collective_permute,
    "stablehlo.reduce_scatter": _reduce_scatter,
}
_UNKNOWN = (
    "stablehlo.collective_broadcast",
    "stablehlo.cross-replica-sum",
    "stablehlo.recv",
    "stablehlo.replica_id",
    "stablehlo.send",
)
