"""What a strategy of an op, and a reshard between two ops, cost a device, without any IR."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from shard_dialect.errors import ShardError
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.devices.collective_time import seconds
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.model.sharding import Shape
from shard_dialect.planner import plan
from shard_dialect.planner.operands import operand_shape
from shard_dialect.search.choices.op_classes import OpClass, ValueClass
from shard_dialect.search.choices.op_strategies import Strategy
from shard_dialect.search.evaluate import Objective

_TIE = 1e-4
"""What a byte that is sent counts where the memory is to be least."""
_ELEMENTS = {1: "f8E4M3FN", 2: "bf16", 4: "f32", 8: "f64"}
"""The element type that stands for all of a size, in bytes."""


@dataclass(frozen=True)
class Prices:
    """Prices on a grid, by the objective: bytes sent or stored, or seconds on a device model."""

    grid: Grid
    device_model: DeviceModel
    objective: Objective
    at_least: bool = False
    """Whether no op may cost less: then only the arithmetic of products counts."""

    def reshard(self, source: Sharding, target: Sharding, value: ValueClass) -> float | None:
        """Of one tensor from one sharding to another; `None` if there is no plan."""
        moved = _reshard(source, target, value.shape, value.itemsize, self.grid, self.device_model)
        if moved is None:
            return None
        if self.objective == "memory":  # then communication decides between equal plans
            return 0.0 if self.at_least else _TIE * moved[0]
        return moved[1] if self.objective == "time" else moved[0]

    def op(self, op: OpClass, strategy: Strategy, values: tuple[ValueClass, ...]) -> float:
        """Of the arithmetic of one op: its seconds where time is asked for, else nothing."""
        return self.seconds(op, strategy, values) if self.objective == "time" else 0.0

    def seconds(self, op: OpClass, strategy: Strategy, values: tuple[ValueClass, ...]) -> float:
        """The time of an op that no compiler fuses into others: a product, a reduction.

        As long as its arithmetic or its traffic with the memory takes (`costs.timed_ops`).
        """
        rule = op.prepared.rule
        if not rule.reductions:
            return 0.0
        itemsize = max((values[each].itemsize for each in op.results), default=4)
        rate = self.device_model.flops_per_second(_ELEMENTS.get(itemsize, "f32"))
        computing = rule.flops(strategy.assignment, self.grid) / rate
        if self.at_least:
            return computing
        moving = self.touched(op, strategy, values) / self.device_model.memory_bytes_per_second
        return max(computing, moving)

    def tie(self, op: OpClass, strategy: Strategy, values: tuple[ValueClass, ...]) -> float:
        """What tells plans apart that cost the same: what their ops read and write."""
        touched = self.touched(op, strategy, values)
        if self.objective == "time":
            return touched / self.device_model.memory_bytes_per_second
        return touched

    def touched(self, op: OpClass, strategy: Strategy, values: tuple[ValueClass, ...]) -> int:
        """The bytes of the shards of an op's operands and results."""
        return sum(
            self.stored(sharding, values[number])
            for number, sharding in zip(
                op.values, (*strategy.operands, *strategy.results), strict=True
            )
            if sharding is not None
        )

    def stored(self, sharding: Sharding, value: ValueClass) -> int:
        """The bytes of one device's shard."""
        return sharding.bare.local_elements(value.shape, self.grid) * value.itemsize


@lru_cache(maxsize=1 << 17)
def _reshard(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    device_model: DeviceModel,
) -> tuple[int, float] | None:
    """The bytes that a device sends, and the seconds that it takes."""
    if source == target or not prod(shape):
        return 0, 0.0
    try:
        found = plan(source, target, shape, itemsize, grid)
    except ShardError:
        return None
    taken, now = 0.0, source
    for step in found.steps:
        if found.grid == grid:
            operand = operand_shape(step, now, shape, grid)
            taken += seconds(step, grid, operand, itemsize, device_model)
            now = step.after(now)
        else:  # on sub-axes, which shardings of the grid do not have
            taken = found.bytes_moved / device_model.network[0].bytes_per_second
    return found.bytes_moved, taken
