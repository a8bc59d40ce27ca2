"""Specialize the local form, the program of all devices, to one device.

    %r = shard.process_linear_index on @g : index       %r = arith.constant 2 : index
    %s = shard.all_slice %x on @g ... slice_axis = 0    %s = tensor.extract_slice %x[4] [4] [1]
    scf.if %is_of_the_first_stage { ... }               nothing, on a device of the second

Ops that the device does not run are erased, so each stage of a pipeline gets a program of its own.
Collectives stay, since other devices take part in them.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import DEVICE, symbol
from shard_dialect.ir.no_grid import declares_no_grid
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.ir.walk import walk
from shard_dialect.model import AllSlice, Grid, Mask
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.schedule.collective_blocks import collectives_kept, local_functions
from shard_dialect.passes.specialize.device_positions import to_arithmetic

_RANK = "shard.process_linear_index"
_MASK = "mesh.mask"
_DIFFERING = (_RANK, _MASK, "shard.all_slice")
"""Ops whose results differ between devices, and which do not communicate."""


@dataclass(frozen=True)
class PickDevice(Pass):
    """Specialize the program of all devices to one device."""

    name = "pick-device"
    rank: int = 0
    """The device's number on its grid."""

    def rewrite(self, module: ir.Operation) -> None:
        """Specialize all local functions; raise if the grid has no device of this rank."""
        if declares_no_grid(module):
            return
        to_arithmetic(module)
        grids = grids_of(module)
        for handle in local_functions(module):
            for op in walk(handle):
                if op.name in _DIFFERING:
                    with located(op), ir.InsertionPoint(op), op.location:
                        picked = self._picked(op, grids)
                    op.results[0].replace_all_uses_with(picked)
                    op.erase()
            handle.attributes[DEVICE] = ir.IntegerAttr.get(ir.IndexType.get(), self.rank)
        with collectives_kept(module):
            PassManager.parse("builtin.module(canonicalize)").run(module)

    def _picked(self, op: ir.Operation, grids: dict[str, Grid]) -> ir.Value:
        """The result of the op on the device."""
        grid = grids[symbol(op.attributes["cluster" if op.name == _MASK else "grid"])]
        if not 0 <= self.rank < grid.size:
            raise ShardError(f"grid {grid} has no device {self.rank}")
        if op.name == _RANK:
            return build.scalar(ir.IntegerAttr.get(ir.IndexType.get(), self.rank)).results[0]
        value, read = op.operands[0], read_local(op.name, op.attributes)
        assert read is not None, "it is a collective of the local form"
        step = read[1]
        position = grid.index_along(self.rank, step.axes)
        if isinstance(step, Mask):
            return reductions.identity_tensor(step.reduction, value.type) if position else value
        assert isinstance(step, AllSlice), "there is no other"
        size = op.results[0].type.shape[step.dim]
        return _slice(value, position * size, size, step.dim)


def _slice(value: ir.Value, start: int, size: int, dim: int) -> ir.Value:
    """A slice along `dim`; of a constant list of integers a constant, so that branches fold."""
    numbers = build.constant_value(value)
    if len(value.type.shape) == 1 and isinstance(numbers, ir.DenseIntElementsAttr):
        element = value.type.element_type
        picked = [ir.IntegerAttr.get(element, numbers[start + at]) for at in range(size)]
        type_ = ir.RankedTensorType.get([size], element)
        return build.scalar(ir.DenseElementsAttr.get(picked, type_)).results[0]
    return build.extract_slice(value, start, size, dim)
