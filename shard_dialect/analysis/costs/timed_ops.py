"""How long each op of a program takes on a device model, and what bounds it.

An op takes as long as its arithmetic or as its traffic with the memory, whichever is more (the
roofline model: Williams, Waterman and Patterson, CACM 52(4), 2009). A result that a compiler fuses
into its readers (`costs.fusion`) causes no traffic. A collective takes what
`model.devices.collective_time` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shard_dialect.analysis.costs.compute import bytes_touched
from shard_dialect.analysis.costs.fusion import fused_ops
from shard_dialect.analysis.costs.local_ops import LocalProgram, Op
from shard_dialect.model import AllSlice, Mask
from shard_dialect.model.devices.collective_time import seconds
from shard_dialect.model.devices.device_model import DeviceModel

_LOCAL = (AllSlice, Mask)
"""Steps of a reshard for which devices do not talk."""
Bound = Literal["compute", "memory", "network", "nothing"]


@dataclass(frozen=True, slots=True)
class OpTime:
    """The time of one run of an op, without that of the ops inside it."""

    seconds: float
    bound: Bound
    flops: int = 0
    bytes: int = 0
    """What the op reads and writes; of a collective, its operand."""


class TimedOps:
    """The times of a program's ops on a device model."""

    def __init__(self, program: LocalProgram, device_model: DeviceModel) -> None:
        self._device_model = device_model
        self._fused = fused_ops(program.entry.blocks)
        self._not_stored = {
            id(value)
            for op, _, _ in program.walk()
            if id(op) in self._fused
            for value in op.results
        }

    def __call__(self, op: Op) -> OpTime:
        """The time of one run; ops that neither compute nor move anything take none."""
        if op.grid is not None and op.step is not None and not isinstance(op.step, _LOCAL):
            return self._collective(op)
        flops = op.flops.total if op.flops else 0
        moved = self._traffic(op)
        element = next((each.tensor.element for each in op.results if each.tensor), "f32")
        computing = flops / self._device_model.flops_per_second(element)
        moving = moved / self._device_model.memory_bytes_per_second
        if not flops and not moved:
            return OpTime(0.0, "nothing")
        bound: Bound = "compute" if computing > moving else "memory"
        return OpTime(max(computing, moving), bound, flops, moved)

    def _collective(self, op: Op) -> OpTime:
        if op.name == "mesh.done" or not op.operands or op.operands[0].tensor is None:
            return OpTime(0.0, "nothing")
        assert op.step is not None
        assert op.grid is not None
        operand = op.operands[0].tensor
        taken = seconds(op.step, op.grid, operand.shape, operand.itemsize, self._device_model)
        return OpTime(taken, "network", 0, operand.bytes)

    def _traffic(self, op: Op) -> int:
        """The bytes that the op reads and writes, without what is fused."""
        moved = bytes_touched(op)
        if not moved:
            return 0
        fused = sum(each.bytes for each in dict.fromkeys(op.reads) if id(each) in self._not_stored)
        fused += sum(each.bytes for each in op.results if id(each) in self._not_stored)
        return max(0, moved - fused)
