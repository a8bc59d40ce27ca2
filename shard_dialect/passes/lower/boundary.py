"""Translate the local form to the lowered form: runtime calls for collectives, buffers for tensors.

    %1 = shard.all_gather %0 on @g grid_axes = [0] gather_axis = 1
           : tensor<4x4xf32> -> tensor<4x8xf32>

becomes, with the declaration once for all calls like it

    func.func private @mesh_all_gather_0(memref<4x4xf32>, memref<8x4xf32>) attributes {
      llvm.emit_c_interface,
      mesh.collective = {gather_axis = 0 : index, grid = @g, grid_axes = array<i16: 0>,
                         mesh.local_types = [tensor<4x4xf32>, tensor<4x8xf32>],
                         name = "shard.all_gather"}}

    %a = memref.alloc() : memref<8x4xf32>
    call @mesh_all_gather_0(%0, %a)

and code that joins the two rows of %a along dimension 1 (`pack_collectives`).

The runtimes (in-process devices, mpi4py, torch.distributed) implement the declared functions. With
`target=mpi` they get bodies that call MPI (see `native_mpi`).
Results are written to buffers that the caller passes as the last arguments.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.function import (
    BOUNDARY,
    boundary,
    form_of,
    functions_of,
    refuse_form,
    set_boundary,
    set_form,
)
from shard_dialect.ir.grids import grids_of, refuse_more_devices
from shard_dialect.ir.mesh.attributes import ARGUMENT, BLOCKS, RESULT, SHARDING, SHARDINGS
from shard_dialect.ir.sdy import ops as sdy
from shard_dialect.ir.verify import declares_no_grid
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model.windows import MOST_SHARDS
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, known, needs
from shard_dialect.passes.manual.replica_group_collectives import refuse_stablehlo_collectives

NOT_LOWERED = ("annotated", "propagated", "distributed", "local")
"""The forms of functions that `lower` has something to do with."""
_SHARDINGS = frozenset((SHARDING, SHARDINGS, BLOCKS, sdy.SHARDING))
"""The attributes of arguments, results and ops that have shardings of values in them."""


@needs(forms=NOT_LOWERED)
def refuse_sharded(module: ir.Operation) -> Outcome:
    """Refuse sharded programs that are not partitioned, collectives without a grid, and huge grids.

    The lowered form lists the members of each group of devices.
    """
    refuse_more_devices(module, MOST_SHARDS, "the lowered form lists")
    no_grid = known(module, declares_no_grid)
    one_device = _has_one_device(module)
    for handle in functions_of(module):
        if no_grid and form_of(handle) != "lowered":
            refuse_stablehlo_collectives(handle)
        if form_of(handle) != "local" and (
            any(map(_is_sharded, walk(handle))) or (not one_device and _has_shardings(handle))
        ):
            raise refuse_form(handle, ": run --spmd before --lower")
    return UNCHANGED


def _is_sharded(op: ir.Operation) -> bool:
    return op.name.startswith(("mesh.", "sdy.")) or op.name in ("shard.shard", "shard.sharding")


def _has_one_device(module: ir.Operation) -> bool:
    """Whether the module declares grids, each of one device: shardings on them split nothing."""
    grids = grids_of(module).values()
    return bool(grids) and all(grid.is_static and grid.size == 1 for grid in grids)


def _has_shardings(handle: ir.Operation) -> bool:
    """Whether attributes of a function annotate an argument, a result, or a value inside."""
    return any(
        not _SHARDINGS.isdisjoint(entry) for key in BOUNDARY for entry in boundary(handle, key)
    ) or any(key in op.attributes for op in walk(handle) for key in _SHARDINGS)


@needs(forms=NOT_LOWERED)
def mark_boundary(module: ir.Operation) -> None:
    """Mark which buffers will be arguments and which results.

    Both are arguments after bufferization. Partitioned functions have the marks already, with their
    global types.
    """
    for handle in functions_of(module):
        if form_of(handle) != "lowered":
            _mark_boundary(handle)


def _mark_boundary(handle: ir.Operation) -> None:
    type_ = handle.attributes["function_type"].value
    for key, name, types in (
        ("arg_attrs", ARGUMENT, type_.inputs),
        ("res_attrs", RESULT, type_.results),
    ):
        entries = boundary(handle, key)
        for attributes, each in zip(entries, types, strict=True):
            if not isinstance(each, ir.RankedTensorType):
                continue
            attributes.setdefault(name, ir.TypeAttr.get(each))
            if name == ARGUMENT:
                # The caller's arrays, on which bufferization would otherwise compute in place.
                attributes["bufferization.writable"] = ir.BoolAttr.get(False)
        set_boundary(handle, key, entries)


@needs(forms=NOT_LOWERED)
def copy_repeated_results(module: ir.Operation) -> Outcome:
    """Copy a value that is returned twice, on which upstream's pass for results crashes."""
    copied = sum(map(_return_copies, functions_of(module)))
    return None if copied else UNCHANGED


def _return_copies(handle: ir.Operation) -> int:
    """Copy the repeated results of a function, and return how many there were."""
    terminator = operations(body(handle))[-1]
    seen: list[ir.Value] = []
    copied = 0
    for number, value in enumerate(terminator.operands):
        if value in seen and isinstance(value.type, ir.MemRefType):
            with ir.InsertionPoint(terminator), terminator.location:
                into = build.allocate(value.type)
                build.create("memref.copy", [], [value, into])
            terminator.operands[number] = into
            copied += 1
        seen.append(value)
    return copied


@needs(forms=NOT_LOWERED)
def end_lowering(module: ir.Operation) -> None:
    """Copy strided buffers by loops, and record that all functions are lowered."""
    for handle in functions_of(module):
        _copy_by_loops(handle)
        set_form(handle, "lowered")  # also what upstream's passes have created


def _copy_by_loops(handle: ir.Operation) -> None:
    """Copy strided buffers by loops: MLIR would call a library function that is not linked."""
    copies = [op for op in walk(handle) if op.name == "memref.copy"]
    build.copies_to_loops(
        op for op in copies if not all(_is_contiguous(operand.type) for operand in op.operands)
    )


def _is_contiguous(type_: ir.Type) -> bool:
    return isinstance(type_, ir.MemRefType) and "strided" not in str(type_.layout)
