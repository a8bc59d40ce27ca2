"""`mesh` ops <-> the steps of a reshard plan.

AllGather(dim=1, axes=(0,))  <->  "mesh.all_gather"(%0) {mesh_axis = [[], [0]]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.ir.mesh.attributes import i64_array, integer, ints
from shard_dialect.ir.mesh.mesh_dialect import CHANGE_OFFSETS, LOCAL_SPLIT, UPDATE_HALO
from shard_dialect.ir.mesh.notation import only_sharding, read_axes, read_notation, write_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings, read_sharding
from shard_dialect.model import (
    REDUCTIONS,
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Axes,
    ChangeOffsets,
    CropHalo,
    Grid,
    Mask,
    Permute,
    ReduceScatter,
    Reduction,
    Sharding,
    ShardingError,
    Step,
    UpdateHalo,
)
from shard_dialect.planner import common_prefix, halo_steps


@dataclass(frozen=True, slots=True)
class Collective:
    """A `mesh` op: its steps, and the shardings in the types of its operand and result."""

    steps: tuple[Step, ...]
    source: Sharding
    target: Sharding


def read_collective(op: ir.Operation) -> Collective:
    """Read a `mesh` op; a type without encoding is replicated on the grid of the other type.

    Raises `ShardingError` where its attributes do not fit its types.
    """
    types = (op.operands[0].type, op.results[0].type)
    shardings = [_sharding_in(type_) for type_ in types]
    grid = next((sharding.grid for sharding in shardings if sharding), "")
    source, target = (
        sharding or Sharding.replicated(grid, type_.rank)
        for sharding, type_ in zip(shardings, types, strict=True)
    )
    if op.name == UPDATE_HALO:
        return Collective(halo_steps(source, target), source, target)
    if op.name == CHANGE_OFFSETS:
        size = types[0].shape[_dim(op, "tensor_axis", source)]
        return Collective((_read_change_offsets(op, source, target, size),), source, target)
    if op.name == "mesh.collective_permute":
        return Collective((_read_permute(op, source, target),), source, target)
    return Collective(_READ[op.name](op, source), source, target)


def _sharding_in(type_: ir.Type) -> Sharding | None:
    if not isinstance(type_, ir.RankedTensorType):
        raise ShardingError(f"takes and gives ranked tensors, found {type_}")
    return None if type_.encoding is None else read_sharding(type_.encoding, type_.rank)


def step_attributes(step: Step, source: Sharding) -> tuple[str, dict[str, ir.Attribute]]:
    """The name and the attributes of the op that is `step`, on a tensor sharded as `source`."""
    return _WRITE[type(step)](step, source)


def is_on_every_grid(step: Step, source: Sharding) -> bool:
    """Whether a step takes a replicated tensor to another grid, which needs no op."""
    return isinstance(step, Permute) and bool(step.grid) and source.is_replicated


def write_steps(
    steps: Sequence[Step], value: ir.Value, source: Sharding, shardings: Shardings
) -> ir.Value:
    """Create the ops of `steps` on `value`, sharded as `source`; returns the last result."""
    now = source
    for step in steps:
        if is_on_every_grid(step, now):
            now = step.after(now)
            continue
        name, attributes = step_attributes(step, now)
        now = step.after(now)
        value = create(name, [shardings.typed(value.type, now)], [value], attributes).results[0]
    return value


def _read_all_gather(op: ir.Operation, source: Sharding) -> tuple[Step, ...]:
    by_dim = _lists(op, "mesh_axis", source).split_axes
    gathered = [dim for dim, axes in enumerate(by_dim) if axes]
    if "tensor_axis" in op.attributes:
        dims = ints(op.attributes["tensor_axis"])
        if sorted(dims) != gathered:
            raise ShardingError(
                f"mesh_axis gathers dimensions {gathered}, but tensor_axis is {dims}"
            )
    return tuple(
        step for dim in gathered for step in _gather(dim, source.split_axes[dim], by_dim[dim])
    )


def _gather(dim: int, split: Axes, axes: Axes) -> Iterator[Step]:
    """Gather `axes` of those that split `dim`, also where minor ones follow them: [1, 0] -> [0].

    Then all from the first of them on are gathered, and the others split the dimension again.
    """
    if split[-len(axes) :] == axes or not _is_within(axes, split):
        yield AllGather(dim, axes)  # whether the axes are there is checked by the step
        return
    first = split.index(axes[0])
    yield AllGather(dim, split[first:])
    yield AllSlice(dim, tuple(axis for axis in split[first:] if axis not in axes))


def _is_within(axes: Axes, split: Axes) -> bool:
    """Whether `split` has `axes`, in their order.

    >>> _is_within((0, 2), (0, 1, 2)), _is_within((2, 0), (0, 1, 2))
    (True, False)
    """
    return tuple(axis for axis in split if axis in axes) == axes


def _read_all_reduce(op: ir.Operation, source: Sharding) -> tuple[Step, ...]:
    return (AllReduce(_axes(op), _reduction(op)),)


def _read_reduce_scatter(op: ir.Operation, source: Sharding) -> tuple[Step, ...]:
    dim, axes = _dim(op, "tensor_axis", source), _axes(op)
    scattered = ReduceScatter(dim, axes, _reduction(op))
    target = _sharding_in(op.results[0].type)
    before, after = source.split_axes[dim], target.split_axes[dim] if target else ()
    is_major = after != before + axes and _is_within(axes, after) and _is_within(before, after)
    if not is_major or len(after) != len(before) + len(axes):
        return (scattered,)
    # The axes come before others, as in [1] -> [0, 1]: the shards are put in this order.
    kept = common_prefix(before, after)
    return scattered, AllGather(dim, (before + axes)[kept:]), AllSlice(dim, after[kept:])


def _read_all_to_all(op: ir.Operation, source: Sharding) -> tuple[Step, ...]:
    concat, split = _dim(op, "concat_axis", source), _dim(op, "split_axis", source)
    if concat == split:
        raise ShardingError(f"split_axis and concat_axis are both {split}: they must differ")
    return (AllToAll(concat, split, _axes(op)),)


def _read_local_split(op: ir.Operation, source: Sharding) -> tuple[Step, ...]:
    target = _sharding_in(op.results[0].type) or Sharding.replicated(source.grid, source.rank)
    if "sharding" in op.attributes:
        added = _lists(op, "sharding", source).split_axes
    else:
        added = _added_axes(source, target.split_axes)
    steps: list[Step] = []
    for dim, axes in enumerate(added):
        for axis in axes:
            if any(axis in split for split in source.split_axes):
                raise ShardingError(
                    f"splits {source} along axis {axis} again: sharding lists only the axes that "
                    "are added"
                )
        if axes:
            at = target.offsets[dim] if target.offsets else ()
            steps.append(AllSlice(dim, axes, at, target.halo(dim), target.fill))
    return tuple(steps)


def _added_axes(source: Sharding, split: tuple[Axes, ...]) -> tuple[Axes, ...]:
    """The axes by which each dimension is split beyond those of `source`."""
    pairs = zip(source.split_axes, split, strict=False)
    return tuple(axes[len(before) :] for before, axes in pairs)


def _read_permute(op: ir.Operation, source: Sharding, target: Sharding) -> Step:
    if "mesh_axis" not in op.attributes or "permutation" not in op.attributes:
        raise ShardingError("has no mesh_axis and no permutation: expected both in this form")
    members = tuple(ints(op.attributes["permutation"]))
    grid = target.grid if target.grid != source.grid else ""
    return Permute(_axes(op), members, target.split_axes, target.partial, target.reduction, grid)


def _read_change_offsets(
    op: ir.Operation, source: Sharding, target: Sharding, size: int
) -> ChangeOffsets:
    dim = _dim(op, "tensor_axis", source)
    at = [each.offsets[dim] if each.offsets else () for each in (source, target)]
    if not any(at):
        raise ShardingError(f"has no offsets of dimension {dim} in its types")
    devices = Grid(source.grid, (max(map(len, at)) - 1,))
    if all(at) and len(at[0]) != len(at[1]):
        raise ShardingError(f"has {len(at[0])} and {len(at[1])} offsets of dimension {dim}")
    bounds = [Sharding("", ((0,),), offsets=(each,)).bounds(0, size, devices) for each in at]
    return ChangeOffsets(dim, target.split_axes[dim], bounds[0], bounds[1], at[1])


def _read_mask(op: ir.Operation, source: Sharding) -> tuple[Step, ...]:
    return (Mask(_axes(op), _reduction(op)),)


def _lists(op: ir.Operation, key: str, source: Sharding) -> Sharding:
    attribute = op.attributes[key]
    sharding = only_sharding(read_notation(source.grid, attribute, source.rank), attribute)
    if sharding != Sharding(source.grid, sharding.split_axes):
        raise ShardingError(f"{key} is {attribute}: expected the axes of each dimension, no more")
    return sharding


def _axes(op: ir.Operation) -> Axes:
    return read_axes(op.attributes["mesh_axis"])


def _dim(op: ir.Operation, name: str, source: Sharding) -> int:
    dim = integer(op.attributes[name])
    if not 0 <= dim < source.rank:
        raise ShardingError(f"{name} is {dim}, but the tensor has {source.rank} dimensions")
    return dim


def _reduction(op: ir.Operation) -> Reduction:
    reduction: str = str(op.attributes["reduction"].value)
    if reduction not in REDUCTIONS:
        raise ShardingError(f"reduction is '{reduction}': expected one of {', '.join(REDUCTIONS)}")
    return reduction


_READ: dict[str, Callable[[ir.Operation, Sharding], tuple[Step, ...]]] = {
    "mesh.all_gather": _read_all_gather,
    "mesh.all_reduce": _read_all_reduce,
    "mesh.reduce_scatter": _read_reduce_scatter,
    "mesh.all_to_all": _read_all_to_all,
    LOCAL_SPLIT: _read_local_split,
    "mesh.mask": _read_mask,
}


def _write_all_gather(step: AllGather, source: Sharding) -> tuple[str, dict[str, ir.Attribute]]:
    return "mesh.all_gather", {"mesh_axis": _axes_of_dim(step.dim, step.axes, source)}


def _axes_of_dim(dim: int, axes: Axes, source: Sharding) -> ir.ArrayAttr:
    """The list for each dimension of which only that of `dim` has axes."""
    lists = (axes if each == dim else () for each in range(source.rank))
    return ir.ArrayAttr.get([write_axes(each) for each in lists])


def _write_all_reduce(step: AllReduce, source: Sharding) -> tuple[str, dict[str, ir.Attribute]]:
    return "mesh.all_reduce", {
        "mesh_axis": write_axes(step.axes),
        "reduction": ir.StringAttr.get(step.reduction),
    }


def _write_reduce_scatter(
    step: ReduceScatter, source: Sharding
) -> tuple[str, dict[str, ir.Attribute]]:
    return "mesh.reduce_scatter", {
        "mesh_axis": write_axes(step.axes),
        "reduction": ir.StringAttr.get(step.reduction),
        "tensor_axis": _i64(step.dim),
    }


def _write_all_to_all(step: AllToAll, source: Sharding) -> tuple[str, dict[str, ir.Attribute]]:
    return "mesh.all_to_all", {
        "mesh_axis": write_axes(step.axes),
        "split_axis": _i64(step.target_dim),
        "concat_axis": _i64(step.source_dim),
    }


def _write_all_slice(step: AllSlice, source: Sharding) -> tuple[str, dict[str, ir.Attribute]]:
    return LOCAL_SPLIT, {"sharding": _axes_of_dim(step.dim, step.axes, source)}


def _write_permute(step: Permute, source: Sharding) -> tuple[str, dict[str, ir.Attribute]]:
    return "mesh.collective_permute", {
        "mesh_axis": write_axes(step.axes),
        "permutation": i64_array(step.permutation),
    }


def _write_mask(step: Mask, source: Sharding) -> tuple[str, dict[str, ir.Attribute]]:
    return "mesh.mask", {
        "mesh_axis": write_axes(step.axes),
        "reduction": ir.StringAttr.get(step.reduction),
    }


_WRITE: dict[type, Callable[..., tuple[str, dict[str, ir.Attribute]]]] = {
    AllGather: _write_all_gather,
    AllReduce: _write_all_reduce,
    ReduceScatter: _write_reduce_scatter,
    AllToAll: _write_all_to_all,
    AllSlice: _write_all_slice,
    Permute: _write_permute,
    Mask: _write_mask,
    ChangeOffsets: lambda step, source: (CHANGE_OFFSETS, {"tensor_axis": _i64(step.dim)}),
    UpdateHalo: lambda step, source: (UPDATE_HALO, {}),
    CropHalo: lambda step, source: (UPDATE_HALO, {}),
}


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
