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

import re
from dataclasses import dataclass
from typing import Literal

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import PassManager, ir, know_stablehlo_passes
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import from_mlir, located
from shard_dialect.ir.function import (
    boundary,
    form_of,
    functions_of,
    refuse_form,
    set_boundary,
    set_form,
)
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT
from shard_dialect.ir.no_grid import declares_no_grid
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.lower.collectives_on_buffers import to_collectives_on_tensors
from shard_dialect.passes.lower.control_flow import keep_endless, switches_to_ifs, to_scf
from shard_dialect.passes.lower.copy_loop_carried import copy_loop_carried
from shard_dialect.passes.lower.decompose_linalg import decompose_linalg
from shard_dialect.passes.lower.expansions import to_loops, to_other_ops
from shard_dialect.passes.lower.free_buffers import free_buffers
from shard_dialect.passes.lower.lower_collectives import call_collectives, pack_collectives
from shard_dialect.passes.lower.mpi.native_mpi import give_bodies
from shard_dialect.passes.lower.refuse_custom_calls import refuse_custom_calls
from shard_dialect.passes.lower.separate_buffers import separate_buffers
from shard_dialect.passes.lower.signless import drop_signs
from shard_dialect.passes.lower.to_stablehlo.to_stablehlo import to_stablehlo
from shard_dialect.passes.lower.upstream_conversions import branches_to_scf, tosa_to_linalg
from shard_dialect.passes.lower.wide_accumulation import accumulate_wide
from shard_dialect.passes.manual.replica_group_collectives import refuse_stablehlo_collectives
from shard_dialect.passes.schedule.collective_blocks import collectives_kept
from shard_dialect.passes.specialize.device_positions import to_arithmetic
from shard_dialect.rules.dialects.rolls import erase_roll

_FROM_STABLEHLO = (
    "builtin.module(stablehlo-legalize-to-linalg,"
    "func.func(canonicalize,empty-tensor-to-alloc-tensor,cse))"
)
# Before anything merges them (`separate_buffers`).
_TO_LINALG = "builtin.module(func.func(empty-tensor-to-alloc-tensor,convert-elementwise-to-linalg))"
_TO_BUFFERS = (
    "builtin.module("
    "one-shot-bufferize{{copy-before-write={} allow-return-allocs-from-loops"
    " bufferize-function-boundaries"
    " function-boundary-type-conversion=identity-layout-map}})"
)
_TO_ARGUMENTS = (
    "builtin.module("
    # Callers pass the buffers of results: new ones would be paged in at every run.
    "buffer-results-to-out-params{modify-public-functions=true hoist-static-allocs=true},"
    "canonicalize)"
)
_SIMPLER = "builtin.module(canonicalize,cse)"


@dataclass(frozen=True)
class Lower(Pass):
    """Replace collectives by calls of runtime functions, and tensors by buffers."""

    name = "lower"
    target: Literal["runtime", "mpi", "stablehlo"] = "runtime"
    """What executes collectives: the runtime that runs the program, generated calls of MPI, or
    whoever compiles StableHLO; then tensors stay tensors."""
    devices: Literal["replicas", "partitions"] = "replicas"
    """What devices are in StableHLO."""
    copy_before_write: bool = False
    """Copy before every write: slower, but correct whatever the buffer analysis overlooks."""

    def rewrite(self, module: ir.Operation) -> None:
        """Lower each function in the local form; raise for the earlier forms."""
        if declares_no_grid(module):
            for handle in functions_of(module):
                if form_of(handle) != "lowered":
                    refuse_stablehlo_collectives(handle)
        for op in [each for each in walk(module) if each.name == "mesh.roll"]:
            with located(op):
                erase_roll(op)
        if self.target == "stablehlo":
            for handle in functions_of(module):
                _check_form(handle)
            to_stablehlo(module, self.devices)
            return
        handles = [op for op in functions_of(module) if form_of(op) != "lowered"]
        if handles:
            self._lower(module, handles)
        if self.target == "mpi":
            give_bodies(module)

    def _lower(self, module: ir.Operation, handles: list[ir.Operation]) -> None:
        for handle in handles:
            _check_form(handle)
            _note_boundary(handle)
            set_form(handle, "lowered")
            to_scf(handle)
            keep_endless(handle)
        try:
            with collectives_kept(module):
                to_arithmetic(module)
                to_collectives_on_tensors(module)
                pack_collectives(module)
                _to_linalg(module)
                switches_to_ifs(module)
                decompose_linalg(module)
                tosa_to_linalg(module)
                PassManager.parse(_TO_LINALG).run(module)
                drop_signs(module)
                accumulate_wide(module)
                separate_buffers(module)
                copy_loop_carried(module)
                to_loops(module)
                call_collectives(module)
            copies = "true" if self.copy_before_write else "false"
            PassManager.parse(_TO_BUFFERS.format(copies)).run(module)
            for handle in functions_of(module):
                _return_copies(handle)
            PassManager.parse(_TO_ARGUMENTS).run(module)
            free_buffers(module)
            PassManager.parse(_SIMPLER).run(module)
            for handle in functions_of(module):
                _copy_by_loops(handle)
                set_form(handle, "lowered")  # upstream's passes also create functions
        except ir.MLIRError as error:
            raise _named(from_mlir(error)) from None


def _check_form(function: ir.Operation) -> None:
    """Raise for a function that is sharded and not partitioned yet."""
    if form_of(function) != "local" and any(_is_sharded(op) for op in walk(function)):
        raise refuse_form(function, ": run --spmd before --lower")


def _named(error: ShardError) -> ShardError:
    """The same error with a clear message, if it is that an op was not bufferized."""
    shown = error.notes[0].message if error.notes else ""
    op_match, target = _OP.match(shown), _CALLED.search(shown)
    if error.message != _NOT_BUFFERIZED or op_match is None:
        return error
    name = f"'{op_match[1]}' op" + (f" of @{target[1]}" if target else "")
    return ShardError(
        f"{name} cannot be lowered: there is no code for it that a device could run",
        error.location,
    )


_NOT_BUFFERIZED = "op was not bufferized"
_OP = re.compile(r'see current operation:\s*(?:%[^"]*= )?"([^"]+)"')
_CALLED = re.compile(r'\bcall_target_name = "([^"]+)"')


def _to_linalg(module: ir.Operation) -> None:
    """Convert branches between blocks to `scf`, and StableHLO to linalg."""
    dialects = {op.name.partition(".")[0] for op in walk(module)}
    if "cf" in dialects:
        branches_to_scf(module)
        keep_endless(module)
        for op in walk(module):
            if op.name == "ub.poison" and isinstance(op.results[0].type, ir.RankedTensorType):
                with ir.InsertionPoint(op), op.location:
                    unread = build.empty(op.results[0].type)
                op.results[0].replace_all_uses_with(unread.results[0])
                op.erase()
    to_other_ops(module)
    refuse_custom_calls(module)
    if "stablehlo" in dialects:
        know_stablehlo_passes()
        PassManager.parse(_FROM_STABLEHLO).run(module)


def _is_sharded(op: ir.Operation) -> bool:
    return op.name.startswith("mesh.") or op.name in ("shard.shard", "shard.sharding")


def _return_copies(handle: ir.Operation) -> None:
    """Copy a value that is returned twice, on which upstream's pass for results crashes."""
    terminator = operations(body(handle))[-1]
    seen: list[ir.Value] = []
    for number, value in enumerate(terminator.operands):
        if value in seen and isinstance(value.type, ir.MemRefType):
            with ir.InsertionPoint(terminator), terminator.location:
                into = build.allocate(value.type).results[0]
                build.create("memref.copy", [], [value, into])
            terminator.operands[number] = into
        seen.append(value)


def _copy_by_loops(handle: ir.Operation) -> None:
    """Copy strided buffers by loops: MLIR would call a library function that is not linked."""
    for op in walk(handle):
        types = [operand.type for operand in op.operands]
        if op.name == "memref.copy" and any(not _is_contiguous(type_) for type_ in types):
            with ir.InsertionPoint(op), op.location:
                build.copy(*op.operands)
            op.erase()


def _is_contiguous(type_: ir.Type) -> bool:
    return isinstance(type_, ir.MemRefType) and "strided" not in str(type_.layout)


def _note_boundary(handle: ir.Operation) -> None:
    """Mark which buffers are arguments and which are results, both arguments after bufferization.

    Partitioned functions have these attributes already, with their global types.
    """
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
