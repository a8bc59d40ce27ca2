"""Checks collectives that a dictionary describes against the module's grids, and their types.

    "mesh.start"(%x) {collective = {grid = @g, name = "shard.all_reduce", ...}}
    func.func private @mesh_all_reduce_0(memref<4xf32>, memref<4xf32>) attributes {
      mesh.collective = {grid = @g, ...}}

The dictionary has the attributes of an op, which no verifier of MLIR has checked.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import (
    COLLECTIVE,
    LOCAL_TYPES,
    PHASE,
    RANK,
    expect,
    expect_in,
)
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.check_shardings import check_coordinates
from shard_dialect.ir.shard.local_collectives import LocalStep, kind_of, read_local
from shard_dialect.model import Grid, Permute, Sharding, ShardingError, UpdateHalo
from shard_dialect.model.point_to_point import Receive, Send
from shard_dialect.model.rooted_collectives import Broadcast, Gather, Reduce, Scatter, Shift
from shard_dialect.model.sharding import Shape


def check_started(op: ir.Operation, shardings: Shardings) -> None:
    """Raise `ShardingError` unless a `mesh.start` describes a valid collective of its types."""
    what = expect(op, "collective", ir.DictAttr, "a dictionary")
    read = read_local(kind_of(what), what)
    types = [op.operands[0].type, op.results[0].type]
    if read is None or not all(isinstance(each, ir.RankedTensorType) for each in types):
        raise ShardingError(f"starts no collective from one tensor to another: {what}")
    grid = shardings.grid(read[0])
    source, target = (tuple(each.shape) for each in types)
    if grid.is_static and all(each.has_static_shape for each in types):
        expected = _shape_after(read[1], source, grid)
        if expected != target:
            raise ShardingError(f"gives {types[1]}, but makes {list(expected)}: {what}")


def check_runtime_function(op: ir.Operation, shardings: Shardings) -> None:
    """Raise `ShardingError` unless a runtime can bind a declared function of the lowered form."""
    type_ = op.attributes["function_type"].value
    if RANK in op.attributes:
        shardings.grid(expect(op, RANK, ir.FlatSymbolRefAttr, "the name of a grid").value)
        if str(type_) != "() -> index":
            raise ShardingError(f"{RANK} is on a function {type_}, expected () -> index")
    if COLLECTIVE in op.attributes:
        _check_called(op, shardings)


def _check_called(op: ir.Operation, shardings: Shardings) -> None:
    what = expect(op, COLLECTIVE, ir.DictAttr, "a dictionary")
    inputs = op.attributes["function_type"].value.inputs
    read = read_local(kind_of(what), what)
    count = 3 if PHASE in what else 2  # the third remembers the started collective
    if read is None or [isinstance(each, ir.MemRefType) for each in inputs] != [True] * count:
        raise ShardingError(
            f"{COLLECTIVE} describes no collective from one buffer to another: {what}"
        )
    source, target = (tuple(each.shape) for each in inputs[:2])
    if LOCAL_TYPES in what:
        _check_local_types(what)
    expected = _shape_after(read[1], source, shardings.grid(read[0]))
    if expected != target or inputs[0].element_type != inputs[1].element_type:
        raise ShardingError(f"{COLLECTIVE} does not make {inputs[1]} of {inputs[0]}: {what}")


def _check_local_types(what: ir.DictAttr) -> None:
    types = expect_in(what, LOCAL_TYPES, ir.ArrayAttr, "the types of an operand and a result")
    types_listed = [each.value for each in types if isinstance(each, ir.TypeAttr)]
    tensors = [each for each in types_listed if isinstance(each, ir.RankedTensorType)]
    if not len(types) == len(tensors) == 2 or not all(each.has_static_shape for each in tensors):
        raise ShardingError(f"{LOCAL_TYPES} is {types}: expected two tensors of known size")


def _shape_after(step: LocalStep, source: Shape, grid: Grid) -> Shape:
    """The local shape after a step; raises where its axes, devices or dimensions do not exist."""
    Sharding(grid.name, (step.axes,)).check(grid, 1)
    for key, index in _devices(step):
        check_coordinates(key, index, grid, [axis for axis in step.axes if isinstance(axis, int)])
    size = grid.axes_size(step.axes)
    if isinstance(step, Permute):
        Permute.check(step.permutation, size, may_be_nobody=True)
    if isinstance(step, Shift) and step.along not in step.axes:
        raise ShardingError(f"shifts along axis {step.along}, which is none of {list(step.axes)}")
    if isinstance(step, UpdateHalo) and (step.dim >= len(source) or min(step.low, step.high) < 0):
        raise ShardingError(f"has no such halo on {list(source)}: {step}")
    return step.local_shape_after(source, size)


def _devices(step: LocalStep) -> list[tuple[str, tuple[int, ...]]]:
    """The devices that a step names, as indices in a group, by their attribute."""
    if isinstance(step, Broadcast | Gather | Reduce | Scatter):
        return [("root", step.root)]
    if isinstance(step, Send):
        return [("destination", step.destination)]
    if isinstance(step, Receive) and step.source is not None:
        return [("source", step.source)]
    return []
