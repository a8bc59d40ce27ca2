"""Translate the distributed form to the local form, the program that devices run on their shards.

    %1 = "mesh.all_gather"(%0) {mesh_axis = [[], [0]]}
           : (tensor<4x8xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<4x8xf32>

becomes, on a grid of two

    %1 = shard.all_gather %0 on @g grid_axes = [0] gather_axis = 1
           : tensor<4x4xf32> -> tensor<4x8xf32>

Types lose their sharding and shrink to the local shape; `mesh` collectives become upstream's
`shard` ones. Every other op stays the same op on smaller tensors, if its sharding rule allows that;
types that it does not allow together (after an edit by hand, say) are refused. Uneven shards are
padded at their end, and the padding is set to the identity before a reduction reads it
(`ops.padding`). The global types stay in the attributes `mesh.argument` and `mesh.result`. In a
function with stages, each device runs the ops of its own stage in branches.

With `arguments=whole` each device takes its shards of unsharded arguments, by `shard.all_slice`;
with `results=whole` it gathers the results. A function that another one of the module calls stays
as it is, since its callers pass shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.function import (
    boundary,
    form_of,
    functions_of,
    name_of,
    refuse_form,
    returns_of,
    set_boundary,
    set_form,
    update_type,
)
from shard_dialect.ir.grids import sub_clusters_of, write_grid
from shard_dialect.ir.mesh.annotation_ops import (
    BOUNDARY_OPS,
    computations_around,
    grid_of,
    manual_axes_at,
    manual_computations,
)
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT, RULE, STAGES, drop_attributes
from shard_dialect.ir.mesh.mesh_collectives import Collective, write_steps
from shard_dialect.ir.mesh.mesh_dialect import is_reshard, permutes_shards
from shard_dialect.ir.mesh.sharding_attributes import Shardings, has_stages
from shard_dialect.ir.numbered_function import Function, itemsize
from shard_dialect.ir.shard.local_collectives import is_between_devices
from shard_dialect.ir.verify import declares_no_grid
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import (
    Grid,
    Sharding,
    ShardingError,
)
from shard_dialect.ops import PartitionedOp, record_of
from shard_dialect.ops.uneven_shards import fill_halos, fill_padding
from shard_dialect.ops.window_shards import read_windows
from shard_dialect.passes.calls import Calls
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.manual.replica_group_collectives import (
    check_between_devices,
    on_global_tensors,
    write_device_collective,
    write_stablehlo_collectives,
)
from shard_dialect.passes.materialize.type_consistency import (
    TypeChecks,
    check_flows,
    check_manual_axes,
    read_distributed,
)
from shard_dialect.passes.partition.partition_collectives import (
    ShardsOfOps,
    exact_steps,
    partition_collective,
)
from shard_dialect.passes.partition.stage_branches import branch_by_stage
from shard_dialect.planner import plan


def not_called(module: ir.Operation) -> list[ir.Operation]:
    """The functions with a body that no function of the module calls."""
    functions = functions_of(module)
    called = {
        op.attributes["callee"].value
        for function in functions
        for op in walk(function)
        if op.name == "func.call"
    }
    return [function for function in functions if name_of(function) not in called]


def unshard_arguments(function: ir.Operation, shardings: Shardings) -> None:
    """Make the arguments unsharded: each device slices its shards from them.

    Reshards of an argument to a larger shard become slices of the unsharded argument, too.
    """
    block = body(function)
    first = operations(block)[0]
    replaced = []
    for argument in block.arguments:
        sharding = shardings.of_type(argument.type)
        if sharding is None:
            continue
        uses = [(use.owner.operation, use.operand_number) for use in argument.uses]
        reshards = [_reshard_to(user, sharding, shardings) for user, _ in uses]
        argument.set_type(shardings.typed(argument.type, None))
        unsharded = Sharding.replicated(sharding.grid, sharding.rank)
        shards: dict[Sharding, ir.Value] = {}
        for (user, number), target in zip(uses, reshards, strict=True):
            target_sharding = target or sharding
            if target_sharding not in shards:
                with ir.InsertionPoint(first), argument.location:
                    shards[target_sharding] = _resharded(
                        argument, unsharded, target_sharding, shardings
                    )
            if target is None:
                user.operands[number] = shards[target_sharding]
                continue
            user.results[0].replace_all_uses_with(shards[target_sharding])
            replaced.append(user)
    for user in replaced:  # of which one may be the first op
        user.erase()
    update_type(function)


def _reshard_to(op: ir.Operation, source: Sharding, shardings: Shardings) -> Sharding | None:
    """The target of `op` if it reshards an argument, and a slice can replace it."""
    if not is_reshard(op) or source.partial:
        return None
    target = shardings.sharding_of(op.results[0].type, shardings.grid(source.grid))
    return None if target.partial or target.grid != source.grid else target


def unshard_results(function: ir.Operation, shardings: Shardings) -> None:
    """Make the results unsharded: each device returns the global tensors."""
    for end in returns_of(function):
        for number, value in enumerate(list(end.operands)):
            sharding = shardings.of_type(value.type)
            if sharding is None:
                continue
            unsharded = Sharding.replicated(sharding.grid, sharding.rank)
            with ir.InsertionPoint(end), end.location:
                end.operands[number] = _resharded(value, sharding, unsharded, shardings)
    update_type(function)


def _resharded(
    value: ir.Value, source: Sharding, target: Sharding, shardings: Shardings
) -> ir.Value:
    type_ = value.type
    grid = shardings.grid(source.grid)
    reshard_plan = plan(source, target, tuple(type_.shape), itemsize(type_.element_type), grid)
    return write_steps(reshard_plan.steps, value, source, shardings)


@dataclass(frozen=True)
class Partition(Pass):
    """Partition the program: local shapes, and upstream's collectives."""

    name = "partition"

    arguments: Literal["pieces", "whole"] = "pieces"
    """The arguments of a device: its shards; or the unsharded tensors, but of functions that
    another one calls."""
    results: Literal["pieces", "whole"] = "pieces"
    """The results of a device: its shards; or the unsharded tensors, gathered on every device."""

    def rewrite(self, module: ir.Operation) -> None:
        """Partition each function in the distributed form; raise for earlier forms."""
        shardings = Shardings.of(module)
        sub_clusters = sub_clusters_of(module)
        for handle in not_called(module):
            if form_of(handle) == "distributed":
                with located(handle):
                    self._unshard_boundary(handle, shardings)
        checks = TypeChecks(shardings)
        no_grid = declares_no_grid(module)
        if no_grid:  # then no pass before has looked
            Calls(module).refuse_recursion()
        for handle in functions_of(module):
            form = form_of(handle)
            if form == "local":
                write_stablehlo_collectives(handle, shardings)
            if form in ("local", "lowered") or no_grid:
                continue
            if form != "distributed":
                raise refuse_form(
                    handle, ": run --propagate and --materialize first, or --spmd for all"
                )
            function = read_distributed(handle, shardings)
            check_manual_axes(handle, shardings)
            check_flows(function, shardings)
            partition_function(function, checks, shardings)
            with located(handle):
                staged = has_stages(handle)
            if staged:
                branch_by_stage(handle, sub_clusters, shardings)
        _use_upstream_grids(module, shardings)

    def _unshard_boundary(self, handle: ir.Operation, shardings: Shardings) -> None:
        if self.arguments == "whole":
            unshard_arguments(handle, shardings)
        if self.results == "whole":
            if has_stages(handle):
                raise ShardingError(
                    f"{as_symbol(name_of(handle))} has stages, whose devices alone have the "
                    "results: they cannot be unsharded on every device"
                )
            unshard_results(handle, shardings)


def partition_function(function: Function, checks: TypeChecks, shardings: Shardings) -> None:
    """Rewrite a function in the distributed form to the local form."""
    handle = function.handle
    shards = ShardsOfOps(shardings)
    ops = [op.handle for op in function.ops]
    # Parallel to `ops`: an op cannot be a key, since its hash changes with its operands.
    collectives: list[Collective | None] = []
    partitioned_ops: list[PartitionedOp | None] = []
    grids: list[Grid | None] = []
    for op in function.ops:
        with located(op.handle):
            if STAGES in op.handle.attributes:  # what a transfer moves follows from the shardings
                op.handle.attributes[ARGUMENT] = ir.TypeAttr.get(op.handle.operands[0].type)
                op.handle.attributes[RESULT] = ir.TypeAttr.get(op.handle.results[0].type)
            rule = checks.rule_of(op, function.values)
            is_collective = is_reshard(op.handle) or permutes_shards(op.handle)
            collectives.append(exact_steps(op.handle, shardings) if is_collective else None)
            partitioned_ops.append(shards.partitioned_op(op.handle, rule) if rule else None)
            grids.append(None if is_collective else _device_grid(op.handle, shardings))
    with located(handle):
        _partition_boundary(handle, "arg_attrs", ARGUMENT, body(handle).arguments)
        for end in returns_of(handle)[:1]:
            _partition_boundary(handle, "res_attrs", RESULT, end.operands)
    with located(handle):
        _partition_arguments(handle, shardings)
    for op, collective, partitioned, grid in zip(
        ops, collectives, partitioned_ops, grids, strict=True
    ):
        with located(op):
            if collective is not None:
                partition_collective(op, collective, shardings)
                continue
            _partition_arguments(op, shardings)
            _partition_results(op, shardings)
            drop_attributes(op, RULE)  # which states the sizes of the global tensors
            if grid is not None:
                write_device_collective(op, grid, shardings, manual_axes_at(op))
            elif partitioned is not None:
                _adapt(partitioned)
    _inline_bodies(handle)
    update_type(handle)
    set_form(handle, "local")


def _inline_bodies(function: ir.Operation) -> None:
    """Inline the manual computations of a partitioned function, where every tensor is a shard."""
    for region in reversed(manual_computations(function)):
        *inside, end = operations(body(region))
        for op in inside:
            if op.name in BOUNDARY_OPS:
                replace_op(op, op.operands[0])
            else:
                op.move_before(region)
        replace_op(region, *end.operands)


_WITH_DEVICES = ("mesh.", "shard.", "stablehlo.")
"""Dialects that have ops about single devices."""


def _device_grid(op: ir.Operation, shardings: Shardings) -> Grid | None:
    """The grid of an op about single devices in a manual computation; `None` for others."""
    if not op.name.startswith(_WITH_DEVICES):
        return None
    around = next(computations_around(op), None) if is_between_devices(op) else None
    if around is None:
        if is_between_devices(op) and not op.name.startswith("stablehlo."):
            raise ShardingError(on_global_tensors(op))
        return None
    grid = grid_of(around, shardings)
    check_between_devices(op, grid)
    return grid


def _adapt(partitioned: PartitionedOp) -> None:
    """Let an op on shards compute the shards of what it computed on global tensors."""
    fill_padding(partitioned)
    if partitioned.rule.windows:
        read_windows(partitioned)
    record = record_of(partitioned.op)
    if record is not None and record.partition is not None:
        record.partition(partitioned)
    elif any(any(map(any, shard.halos)) for shard in partitioned.results if shard is not None):
        fill_halos(partitioned)


def _partition_arguments(op: ir.Operation, shardings: Shardings) -> None:
    for region in op.regions:
        for block in region.blocks:
            for argument in block.arguments:
                _partition_value(argument, shardings)


def _partition_boundary(
    handle: ir.Operation, key: str, name: str, values: Sequence[ir.Value]
) -> None:
    entries = boundary(handle, key)
    for attributes, value in zip(entries, values, strict=True):
        if isinstance(value.type, ir.RankedTensorType):
            attributes[name] = ir.TypeAttr.get(value.type)
    set_boundary(handle, key, entries)


def _partition_value(value: ir.Value, shardings: Shardings) -> None:
    if isinstance(value.type, ir.RankedTensorType):
        value.set_type(shardings.local(value.type))


def _partition_results(op: ir.Operation, shardings: Shardings) -> None:
    if build.is_constant(op) and shardings.of_type(op.results[0].type) is not None:
        _partition_constant(op, shardings)
    for result in op.results:
        _partition_value(result, shardings)


def _partition_constant(op: ir.Operation, shardings: Shardings) -> None:
    """Shrink a constant whose type has a sharding; only a splat is the same in every shard."""
    key = build.CONSTANTS[op.name]
    global_value = op.attributes[key]
    if not build.is_splat(global_value):
        raise ShardingError(
            'is a constant with a sharding in its type: take a "mesh.local_split" of a plain one'
        )
    op.attributes[key] = build.resplat(global_value, shardings.local(op.results[0].type))


def _use_upstream_grids(module: ir.Operation, shardings: Shardings) -> None:
    """Replace `mesh.cluster` by `shard.grid`: upstream's collectives look for that."""
    for op in operations(body(module)):
        if op.name != "mesh.cluster":
            continue
        grid = shardings.grid(name_of(op))
        with ir.InsertionPoint(op), op.location:
            write_grid(grid, op)
        op.erase()
