"""Write the local form as plain StableHLO, the last step of `lower{target=stablehlo}`.

    shard.grid @g(shape = 2x2)
    func.func @main(%x: tensor<4x4xf32> {mesh.argument = ...}) -> tensor<4x8xf32> {
      %1 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1

becomes

    module attributes {mhlo.num_partitions = 1, mhlo.num_replicas = 4}
    func.func @main(%x: tensor<4x4xf32>) -> tensor<4x8xf32> {
      %1 = "stablehlo.all_gather"(%x) {all_gather_dim = 1, replica_groups = [[0, 2], [1, 3]]}

Nothing but `func` and `stablehlo` is left, and functions of CHLO, which the next step decomposes,
so that every compiler of StableHLO takes the text: jaxlib's, IREE's, StableHLO's interpreter. The
devices are replicas, in the order of their ranks, or partitions. Other dialects that programs may
hold (`arith`, `math`, `tensor`, `linalg`, `tosa`, `scf`) are written as StableHLO, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import drop_unused, is_used
from shard_dialect.ir.context import STABLEHLO, load_dialects_of
from shard_dialect.ir.diagnostics import error_at, from_mlir_in, located
from shard_dialect.ir.function import BOUNDARY, functions_of, refuse_program_of_device
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.reading.constants import write_resources_in_place
from shard_dialect.ir.shard.local_collectives import one_by_one, read_local
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Grid
from shard_dialect.ops.op_table import record_of, traits_of
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.lower.partly_reached import partly_reached
from shard_dialect.passes.lower.to_stablehlo.stablehlo_collectives import (
    DeviceGroups,
    Devices,
    collective,
)
from shard_dialect.passes.lower.to_stablehlo.stablehlo_control_flow import (
    CONTROL_FLOW,
    inline_regions,
)
from shard_dialect.passes.lower.to_stablehlo.stablehlo_elementwise import (
    elementwise,
    is_elementwise,
    listed,
)

_WORDS = tuple(f"{dialect}." for dialect in STABLEHLO)
_RANK = "shard.process_linear_index"
_PARTLY_REACHED = "partly_reached"
"""Attribute of a collective, until it is converted."""


@dataclass(frozen=True)
class ConvertToStablehlo(Pass):
    """Write the program of each device as plain StableHLO."""

    name = "convert-to-stablehlo"

    devices: Devices = "replicas"
    """The kind of StableHLO's processes that devices become."""

    def rewrite(self, module: ir.Operation) -> None:
        """Convert a module in the local form. Raises `ShardError` for what has no words."""
        _check_all_devices(module)
        load_dialects_of("stablehlo.", module.context)
        write_resources_in_place(module)
        for function in functions_of(module):
            _prepare(function)
        for op in partly_reached(module):
            op.attributes[_PARTLY_REACHED] = ir.UnitAttr.get()
        conversion = _Conversion(DeviceGroups(self.devices), grids_of(module))
        for function in functions_of(module):
            conversion.convert_function(function)
        _check_words(module)
        _strip(module, conversion.grids, self.devices)


def _check_all_devices(module: ir.Operation) -> None:
    for function in functions_of(module):
        refuse_program_of_device(function, "as StableHLO, all devices run one program")


def _prepare(function: ir.Operation) -> None:
    """Leave one block with single collectives, and without constants that nothing reads.

    Raises a located `ShardError` for several blocks.
    """
    if len(function.regions[0].blocks) != 1:
        raise error_at(function.location, "a function of several blocks cannot be lowered")
    inline_regions(function)
    for op in walk(function):
        is_constant = Trait.CONSTANT in traits_of(op.name)
        if is_constant and not is_used(*op.results):
            op.erase()  # as the padding of a tosa.pad, whose lowering has read it
            continue
        with located(op):
            one_by_one(op)


class _Conversion:
    """Converts functions, block by block."""

    def __init__(self, groups: DeviceGroups, grids: dict[str, Grid]) -> None:
        self.groups, self.grids = groups, grids

    def convert_function(self, function: ir.Operation) -> None:
        """Convert the body, and the function's type: scalars become tensors."""
        block = body(function)
        with located(function), function.location:
            self._open(block)
        last = self.convert_block(block)
        with located(last):
            for position, value in enumerate(list(last.operands)):
                last.operands[position] = hlo.tensor_of(value)
        types = [argument.type for argument in block.arguments], [v.type for v in last.operands]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))

    def _open(self, block: ir.Block) -> None:
        """Give the block's arguments the types of tensors."""
        for argument in block.arguments:
            old, new = argument.type, hlo.tensor_type(argument.type)
            if old == new:
                continue
            argument.set_type(new)
            with ir.InsertionPoint.at_block_begin(block):
                scalar = hlo.as_type(argument, old)
            argument.replace_all_uses_except(scalar, scalar.owner.operation)

    def convert_block(self, block: ir.Block) -> ir.Operation:
        """Convert the ops of a block but the last, and return that."""
        *inside, last = operations(block)
        for op in inside:
            with located(op), ir.InsertionPoint(op), op.location:
                self._convert(op)
        return last

    def _convert(self, op: ir.Operation) -> None:
        if op.name.startswith(_WORDS):
            for region in op.regions:
                for block in region.blocks:
                    self.convert_block(block)
        elif op.name.startswith(("shard.", "mesh.")):
            self._convert_ours(op)
        elif op.name in CONTROL_FLOW:
            hlo.replace(op, CONTROL_FLOW[op.name](op, self.convert_block))
        elif op.name == "func.call":
            hlo.replace(op, _call(op))
        elif op.name != hlo.CAST:
            hlo.replace(op, as_stablehlo(op))

    def _convert_ours(self, op: ir.Operation) -> None:
        if op.name == _RANK:
            hlo.replace(op, [self.groups.rank()])
        elif op.name == "mesh.done":
            hlo.replace(op, [hlo.tensor_of(op.operands[0])])
        else:
            self._collective(op)

    def _collective(self, op: ir.Operation) -> None:
        read = read_local(op.name, op.attributes)
        if read is None:
            raise _no_words(op)
        grid, step = read
        type_ = hlo.tensor_type(op.results[0].type)
        with ir.InsertionPoint(op), op.location:
            value = collective(
                self.groups,
                step,
                self.grids[grid],
                hlo.tensor_of(op.operands[0]),
                type_,
                is_partly_reached=_PARTLY_REACHED in op.attributes,
            )
        hlo.replace(op, [value])


def _call(op: ir.Operation) -> list[ir.Value]:
    types = [hlo.tensor_type(each.type) for each in op.results]
    attributes = {name: op.attributes[name] for name in op.attributes}
    call = ir.Operation.create("func.call", types, hlo.tensors_of(op.operands), attributes)
    return list(call.results)


def as_stablehlo(op: ir.Operation) -> list[ir.Value]:
    """The results of the op as its record creates them. Raises `ShardError` if it has no words."""
    if is_elementwise(op):
        return elementwise(op, hlo.tensors_of(op.operands))
    record = record_of(op)
    written = record.stablehlo if record else None
    if callable(written):
        return listed(written(op))
    if written:
        return _named(op, f"stablehlo.{written}")
    raise _no_words(op)


def _named(op: ir.Operation, name: str) -> list[ir.Value]:
    """The results of the op of StableHLO that a user says `op` is."""
    if not op.context.is_registered_operation(name):
        raise ShardError(f"the stablehlo of '{op.name}' is '{name}': there is no such op")
    types = [hlo.tensor_type(each.type) for each in op.results]
    made = ir.Operation.create(name, types, hlo.tensors_of(op.operands))
    try:
        made.verify()
    except ir.MLIRError as error:
        raise from_mlir_in(f"the stablehlo of '{op.name}', '{name}'", error, None) from None
    return list(made.results)


def _no_words(op: ir.Operation) -> ShardError:
    return ShardError(f"'{op.name}' op cannot be written as StableHLO")


def _check_words(module: ir.Operation) -> None:
    """Raise for ops of other dialects; casts without uses go."""
    drop_unused(op for op in reversed(walk(module)) if op.name == hlo.CAST)
    for op in walk(module):
        with located(op):
            is_known = op.name.startswith(("func.", *_WORDS)) or op.name == "shard.grid"
            if not is_known and op.parent != module:
                raise _no_words(op)


def _strip(module: ir.Operation, grids: dict[str, Grid], devices: Devices) -> None:
    """Remove the attributes about shardings, and set the number of devices of the program."""
    for op in operations(body(module)):
        if op.name != "func.func":
            op.erase()
    for op in operations(body(module)):
        for name in [each for each in op.attributes if each.startswith(_OURS)]:
            del op.attributes[name]
        for key in BOUNDARY:
            if key in op.attributes:
                entries = [
                    {each.name: each.attr for each in entry if not each.name.startswith(_OURS)}
                    for entry in op.attributes[key]
                ]
                kept = ir.ArrayAttr.get([ir.DictAttr.get(entry) for entry in entries])
                if any(entries):
                    op.attributes[key] = kept
                else:
                    del op.attributes[key]
    count = max((grid.size for grid in grids.values() if grid.is_static), default=1)
    counts = {"replicas": 1, "partitions": 1, devices: count}
    for name, number in counts.items():
        i32 = ir.IntegerType.get_signless(32)
        module.attributes[f"mhlo.num_{name}"] = ir.IntegerAttr.get(i32, number)


_OURS = ("mesh.", "shard.", "sdy.", "bufferization.")
