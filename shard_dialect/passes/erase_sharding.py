"""Restore the unsharded program: erase shardings, annotations and collectives.

    %0 = shard.shard %x to %s : tensor<4x8xf32>                        %0 is %x
    %1 = "mesh.all_gather"(%0) ... : (tensor<..., #mesh.shard<...>>)   %1 is %0

Annotations and collectives on global tensors change a tensor's sharding, never its value, so each
is replaced by its operand. A permutation of shards becomes slices that are put into other places,
and a transfer of a part of a tensor a slice. A sharded run is compared with this program, so this
pass shares no code with the passes that shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.collectives.collective_table import ops_of_mesh
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.building.loops_and_masks import extract_box, insert_box
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import (
    drop_from_boundary,
    forget_form,
    form_of,
    functions_of,
    refuse_form,
    update_type,
)
from shard_dialect.ir.grids import OPS as GRIDS
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.annotation_ops import is_manual
from shard_dialect.ir.mesh.attributes import (
    BLOCKS,
    MANUAL,
    NAMED,
    RULE,
    SHARDING,
    SHARDINGS,
    STAGE,
    STAGES,
    drop_attributes,
    ints,
)
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES, TRANSFER, is_reshard, permutes_shards
from shard_dialect.ir.mesh.notation import read_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.ops.dialects.mesh_rules import erase_roll
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.specialize.fold_grid_queries import fold_grid_sizes
from shard_dialect.planner.permutation import moved_shards


def erase_permutation(op: ir.Operation, shardings: Shardings) -> None:
    """Replace `op`, whose result may have a sharding; its operand has none any more."""
    sharding = shardings.of_type(op.results[0].type)
    assert sharding is not None, "the verifier refuses a permutation of a replicated tensor"
    grid, axes = shardings.grid(sharding.grid), read_axes(op.attributes["mesh_axis"])
    moved = moved_shards(ints(op.attributes["permutation"]), axes, sharding, grid)
    source = result = op.operands[0]
    shape = sharding.local_shape(tuple(source.type.shape), grid)
    with ir.InsertionPoint(op), op.location:
        for target, held in moved.items():
            shard = source
            for dim, size in enumerate(shape):
                if size < shard.type.shape[dim]:
                    shard = build.extract_slice(shard, held[dim] * size, size, dim)
            begins = [index * size for index, size in zip(target, shape, strict=True)]
            result = _inserted(shard, result, begins)
    replace_op(op, result)


def _inserted(shard: ir.Value, into: ir.Value, begins: Sequence[int]) -> ir.Value:
    attributes = build.slice_attributes(shard.type.shape, begins, [1, 1, 0, 0, 0])
    return build.create_value("tensor.insert_slice", into.type, [shard, into], attributes)


def erase_transfer(op: ir.Operation) -> None:
    """Replace `op`, a `mesh.transfer`, whose operands and result have no sharding any more."""
    source, *into = op.operands
    offsets = list(ints(op.attributes["offsets"]))
    with ir.InsertionPoint(op), op.location:
        if into:
            result = insert_box(into[0], source, offsets)
        else:
            result = extract_box(source, offsets, tuple(op.results[0].type.shape))
    replace_op(op, result)


_ALIASES = (
    *annotation_ops.OPS,
    *COLLECTIVES,
    "mesh.propagation_barrier",
    "shard.shard",
    "sdy.propagation_barrier",
    "sdy.reshard",
    "sdy.sharding_constraint",
)
"""Ops that change a tensor's sharding, never its value."""
_SILENT = ("mesh.sharding_group", "sdy.sharding_group", "shard.get_sharding", "shard.sharding")
"""Ops that return no tensor; erased in reverse order, users before their operands."""
_LOCAL = ("mesh.idx", "mesh.size")
_ATTRIBUTES = (SHARDINGS, BLOCKS, RULE, MANUAL, NAMED, "sdy.sharding", "sdy.sharding_rule")


@dataclass(frozen=True)
class EraseSharding(Pass):
    """Erase annotations, shardings and collectives: the program for one device."""

    name = "erase-sharding"

    def rewrite(self, module: ir.Operation) -> None:
        """Erase sharding from all functions; raise for the local and lowered forms."""
        shardings = Shardings.of(module)
        fold_grid_sizes(module)
        for handle in functions_of(module):
            form = form_of(handle)
            if form in ("local", "lowered"):
                raise refuse_form(
                    handle, ", which no longer has the unsharded program: name it with --reference"
                )
            _erase(handle, shardings)
        for op in operations(body(module)):
            if op.name in GRIDS:
                op.erase()
            elif op.name == "func.func" and not len(op.regions[0].blocks):
                _erase_from_declaration(op, shardings)


def _erase_from_declaration(op: ir.Operation, shardings: Shardings) -> None:
    type_ = op.attributes["function_type"].value
    inputs, results = (
        [each if shardings.of_type(each) is None else shardings.typed(each, None) for each in types]
        for types in (type_.inputs, type_.results)
    )
    op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    for prefix in (SHARDING, "sdy.sharding"):
        drop_from_boundary(op, prefix)


def _erase(handle: ir.Operation, shardings: Shardings) -> None:
    _refuse_local(handle)
    _erase_from_ops(handle, shardings)
    for op in reversed(walk(handle)):
        if op.name in _SILENT:
            _refuse_if_used(op)
            op.erase()
    for prefix in (SHARDING, STAGE, "sdy.sharding"):
        drop_from_boundary(handle, prefix)
    forget_form(handle)
    drop_attributes(handle, "mesh_cluster")
    update_type(handle)


def _erase_from_ops(handle: ir.Operation, shardings: Shardings) -> None:
    ops = walk(handle)
    permutes = [permutes_shards(op) for op in ops]  # as long as both types have the sharding
    for op in (handle, *ops):
        for region in op.regions:
            for argument in [each for block in region.blocks for each in block.arguments]:
                _make_plain(argument, shardings)
    for op, is_permutation in zip(ops, permutes, strict=True):
        if is_permutation:
            erase_permutation(op, shardings)
        elif op.name == "mesh.roll":
            erase_roll(op)
        elif op.name == TRANSFER:
            _make_plain(op.results[0], shardings)
            erase_transfer(op)
        else:
            _erase_from(op, shardings)


def _refuse_local(handle: ir.Operation) -> None:
    for op in walk(handle):
        if is_manual(op):
            raise error_at(
                op.location,
                "a manual computation says what single devices do, and "
                "not what is done to unsharded tensors: name the unsharded program with "
                "--reference",
            )
        is_passed_on = op.name == "mesh.collective_permute" and (
            "mesh_axis" not in op.attributes or STAGES in op.attributes
        )
        is_global = is_reshard(op) or permutes_shards(op) or is_passed_on
        if op.name in _LOCAL or (op.name in ops_of_mesh() and not is_global):
            raise error_at(op.location, f"'{op.name}' op is about one device among many")


def _erase_from(op: ir.Operation, shardings: Shardings) -> None:
    if op.name in _ALIASES:
        replace_op(op, op.operands[0])
        return
    if op.name.startswith("sdy.") and op.name not in _SILENT:
        raise error_at(op.location, f"'{op.name}' op is Shardy's: run --import first")
    drop_attributes(op, *_ATTRIBUTES)
    if annotation_ops.has_loops(op):
        del op.attributes[annotation_ops.LOOPS]
    for result in op.results:
        _make_plain(result, shardings)


def _refuse_if_used(op: ir.Operation) -> None:
    for result in op.results:
        for use in result.uses:
            raise error_at(
                use.owner.operation.location,
                f"'{use.owner.operation.name}' op asks for a sharding, which one device has not",
            )


def _make_plain(value: ir.Value, shardings: Shardings) -> None:
    if shardings.of_type(value.type) is None:
        return
    if not build.retype(value, shardings.typed(value.type, None)):
        raise error_at(
            value.owner.location,
            "a constant's type has a sharding: split a plain constant instead",
        )
