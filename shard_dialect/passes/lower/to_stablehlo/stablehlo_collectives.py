"""Collectives of the local form as StableHLO's.

    %1 = shard.all_gather %0 on @g grid_axes = [0] gather_axis = 1
      becomes
    %1 = "stablehlo.all_gather"(%0) {all_gather_dim = 1, replica_groups = dense<[[0, 2], [1, 3]]>}

XLA has no collectives with a root: all devices get what the root has, or what it would get. It has
no reduction by bits either: all devices gather, and each reduces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.shard.local_collectives import LocalStep
from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Grid,
    Mask,
    Permute,
    ReduceScatter,
    Reduction,
    UpdateHalo,
)
from shard_dialect.model.collectives import NOBODY
from shard_dialect.model.rooted_collectives import (
    Broadcast,
    Gather,
    Reduce,
    Scatter,
    Shift,
    flat_index,
)
from shard_dialect.passes.lower.to_stablehlo.replica_groups import DeviceGroups
from shard_dialect.passes.lower.to_stablehlo.stablehlo_builder import (
    compare,
    convert,
    dynamic_slice,
    dynamic_update,
    fill_combiner,
    i64,
    index,
    number,
    reduce,
    reshape,
    select,
    slice_along,
    stablehlo_op,
    table,
    tensor,
)
from shard_dialect.planner.halos import halo_messages

COMBINERS: dict[Reduction, str] = {
    "sum": "add",
    "average": "add",
    "product": "multiply",
    "max": "maximum",
    "min": "minimum",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
_BITWISE = ("and", "or", "xor")


def collective(
    groups: DeviceGroups, step: LocalStep, grid: Grid, operand: ir.Value, type_: ir.RankedTensorType
) -> ir.Value:
    """The result, of type `type_`, of a step on `operand`. Raises `ShardError` for messages."""
    if type(step) not in _STEPS:
        raise ShardError(
            f"a {step.kind} cannot be written as StableHLO, where all devices run one program: "
            "use shard.shift, or mesh.collective_permute"
        )
    if 0 in type_.shape:  # StableHLO has no collectives of nothing
        return number(0, type_)
    return _STEPS[type(step)](groups, step, grid, operand, type_)


def _all_gather(
    groups: DeviceGroups,
    step: AllGather | Gather,
    grid: Grid,
    operand: ir.Value,
    type_: ir.RankedTensorType,
) -> ir.Value:
    attributes = {
        "all_gather_dim": i64(step.dim),
        **groups.attributes(grid, step.axes),
        **groups.global_ids(),
    }
    return stablehlo_op("all_gather", type_, [operand], attributes)


def _all_reduce(
    groups: DeviceGroups,
    step: AllReduce | Reduce,
    grid: Grid,
    operand: ir.Value,
    type_: ir.RankedTensorType,
) -> ir.Value:
    kind, value = COMBINERS[step.reduction], convert(operand, type_.element_type)
    if kind in _BITWISE:
        return _gathered_and_reduced(groups, step, grid, value, kind)
    attributes = groups.attributes(grid, step.axes) | groups.global_ids()
    result = stablehlo_op("all_reduce", type_, [value], attributes, 1)
    fill_combiner(result.owner, kind, type_.element_type)
    return _averaged(result, step.reduction, grid.axes_size(step.axes))


def _averaged(value: ir.Value, reduction: Reduction, count: int) -> ir.Value:
    if reduction != "average":
        return value
    return stablehlo_op("divide", value.type, [value, number(count, value.type)])


def _gathered_and_reduced(
    groups: DeviceGroups, step: AllReduce | Reduce, grid: Grid, value: ir.Value, kind: str
) -> ir.Value:
    rows = reshape(value, [1, *value.type.shape])
    count = grid.axes_size(step.axes)
    stacked = tensor([count, *value.type.shape], value.type.element_type)
    gathered = _all_gather(groups, AllGather(0, step.axes), grid, rows, stacked)
    identity = number(-1 if kind == "and" else 0, tensor((), value.type.element_type))
    return reduce(gathered, kind, identity, [0])


def _reduce_scatter(
    groups: DeviceGroups,
    step: ReduceScatter,
    grid: Grid,
    operand: ir.Value,
    type_: ir.RankedTensorType,
) -> ir.Value:
    kind = COMBINERS[step.reduction]
    if kind in _BITWISE:
        value = convert(operand, type_.element_type)
        joined = _gathered_and_reduced(
            groups, AllReduce(step.axes, step.reduction), grid, value, kind
        )
        return _all_slice(groups, AllSlice(step.dim, step.axes), grid, joined, type_)
    attributes = {
        "scatter_dimension": i64(step.dim),
        **groups.attributes(grid, step.axes),
        **groups.global_ids(),
    }
    value = convert(operand, type_.element_type)
    result = stablehlo_op("reduce_scatter", type_, [value], attributes, 1)
    fill_combiner(result.owner, kind, type_.element_type)
    return _averaged(result, step.reduction, grid.axes_size(step.axes))


def _all_to_all(
    groups: DeviceGroups,
    step: AllToAll,
    grid: Grid,
    operand: ir.Value,
    type_: ir.RankedTensorType,
) -> ir.Value:
    attributes = {
        "split_dimension": i64(step.target_dim),
        "concat_dimension": i64(step.source_dim),
        "split_count": i64(grid.axes_size(step.axes)),
        **groups.attributes(grid, step.axes),
    }
    return stablehlo_op("all_to_all", type_, [operand], attributes)


def _all_slice(
    groups: DeviceGroups,
    step: AllSlice,
    grid: Grid,
    operand: ir.Value,
    type_: ir.RankedTensorType,
) -> ir.Value:
    size = type_.shape[step.dim]
    starts = [index(0)] * type_.rank
    ranks = range(grid.size)
    starts[step.dim] = groups.of_rank([grid.index_along(each, step.axes) * size for each in ranks])
    return dynamic_slice(operand, starts, type_.shape)


def _permuted(
    groups: DeviceGroups, operand: ir.Value, pairs: Iterable[tuple[int, int]]
) -> ir.Value:
    """Send from the first device of each pair to the second; others get zeros."""
    listed = list(pairs)
    sources = {"source_target_pairs": table(listed, [len(listed), 2]), **groups.channel()}
    return stablehlo_op("collective_permute", operand.type, [operand], sources)


def _permute(
    groups: DeviceGroups, step: Permute, grid: Grid, operand: ir.Value, _: ir.RankedTensorType
) -> ir.Value:
    pairs = [
        (group[member], group[to])
        for group in grid.groups(step.axes)
        for member, to in enumerate(step.permutation)
        if to != NOBODY
    ]
    return _permuted(groups, operand, pairs)


def _shift(
    groups: DeviceGroups, step: Shift, grid: Grid, operand: ir.Value, _: ir.RankedTensorType
) -> ir.Value:
    sizes = grid.sizes_along(step.axes)
    pairs = [
        (rank, group[to])
        for group in grid.groups(step.axes)
        for member, rank in enumerate(group)
        if (to := step.partners(member, sizes)[0]) is not None
    ]
    return _permuted(groups, operand, pairs) if pairs else number(0, operand.type)


def _update_halo(
    groups: DeviceGroups, step: UpdateHalo, grid: Grid, operand: ir.Value, _: ir.RankedTensorType
) -> ir.Value:
    value, size = operand, grid.axes_size(step.axes)
    zero = index(0)
    for each in halo_messages(step, operand.type.shape[step.dim]):
        pairs = [
            (group[member], group[member + each.to])
            for group in grid.groups(step.axes)
            for member in range(size)
            if 0 <= member + each.to < size
        ]
        if not pairs:
            continue
        got = _permuted(groups, slice_along(value, step.dim, each.sent, each.count), pairs)
        targets = {to for _, to in pairs}
        receives = groups.of_rank([int(rank in targets) for rank in range(grid.size)])
        kept = slice_along(value, step.dim, each.put, each.count)
        starts = [zero] * value.type.rank
        starts[step.dim] = index(each.put)
        new = select(compare("NE", receives, zero), got, kept)
        value = dynamic_update(value, new, starts)
    return value


def _mask(
    groups: DeviceGroups, step: Mask, grid: Grid, operand: ir.Value, _: ir.RankedTensorType
) -> ir.Value:
    is_first = compare("EQ", groups.position(grid, step.axes), index(0))
    return select(is_first, operand, identity(step.reduction, operand.type))


def identity(reduction: Reduction, type_: ir.RankedTensorType) -> ir.Value:
    """A constant of the identity of a reduction."""
    element = type_.element_type
    if reduction in ("max", "min") and isinstance(element, ir.FloatType):
        return number(float("-inf" if reduction == "max" else "inf"), type_)
    if reduction in ("max", "min"):
        return number(extreme(element, is_largest=reduction == "min"), type_)
    return number({"product": 1, "bitwise_and": -1}.get(reduction, 0), type_)


def extreme(element: ir.Type, *, is_largest: bool) -> int:
    """The largest or the smallest integer of a type."""
    if element.is_unsigned or element.width == 1:
        return 2**element.width - 1 if is_largest else 0
    return 2 ** (element.width - 1) - 1 if is_largest else -(2 ** (element.width - 1))


def _is_root(
    groups: DeviceGroups, step: Broadcast | Gather | Reduce | Scatter, grid: Grid
) -> ir.Value:
    root = flat_index(step.root, grid.sizes_along(step.axes))
    return compare("EQ", groups.position(grid, step.axes), index(root))


def _broadcast(
    groups: DeviceGroups, step: Broadcast, grid: Grid, operand: ir.Value, _: ir.RankedTensorType
) -> ir.Value:
    """An all-gather of which the root's part is taken: exact for every element type."""
    count, shape = grid.axes_size(step.axes), list(operand.type.shape)
    stacked = tensor([count, *shape], operand.type.element_type)
    rows = reshape(operand, [1, *shape])
    gathered = _all_gather(groups, AllGather(0, step.axes), grid, rows, stacked)
    root = flat_index(step.root, grid.sizes_along(step.axes))
    return reshape(slice_along(gathered, 0, root, 1), shape)


def _only_on_root(
    groups: DeviceGroups, step: Gather | Reduce, grid: Grid, value: ir.Value
) -> ir.Value:
    return select(_is_root(groups, step, grid), value, number(0, value.type))


def _gather(
    groups: DeviceGroups,
    step: Gather,
    grid: Grid,
    operand: ir.Value,
    type_: ir.RankedTensorType,
) -> ir.Value:
    return _only_on_root(groups, step, grid, _all_gather(groups, step, grid, operand, type_))


def _reduce(
    groups: DeviceGroups,
    step: Reduce,
    grid: Grid,
    operand: ir.Value,
    type_: ir.RankedTensorType,
) -> ir.Value:
    return _only_on_root(groups, step, grid, _all_reduce(groups, step, grid, operand, type_))


def _scatter(
    groups: DeviceGroups,
    step: Scatter,
    grid: Grid,
    operand: ir.Value,
    type_: ir.RankedTensorType,
) -> ir.Value:
    """An all-to-all of which the root's block is taken."""
    count, shape = grid.axes_size(step.axes), list(type_.shape)
    rows = list(shape)
    blocks = [*shape[: step.dim], count, *shape[step.dim :]]
    split = reshape(operand, blocks)
    exchanged = _all_to_all(
        groups, AllToAll(step.dim, step.dim, step.axes), grid, split, split.type
    )
    root = flat_index(step.root, grid.sizes_along(step.axes))
    return reshape(slice_along(exchanged, step.dim, root, 1), rows)


_STEPS: dict[type, Callable[..., ir.Value]] = {
    AllGather: _all_gather,
    AllReduce: _all_reduce,
    AllSlice: _all_slice,
    AllToAll: _all_to_all,
    Broadcast: _broadcast,
    Gather: _gather,
    Mask: _mask,
    Permute: _permute,
    Reduce: _reduce,
    ReduceScatter: _reduce_scatter,
    Scatter: _scatter,
    Shift: _shift,
    UpdateHalo: _update_halo,
}
