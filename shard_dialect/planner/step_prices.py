"""What plans are compared by: bytes that a device sends, or time on a device model.

    Prices()                                plan for the fewest bytes
    Prices(DeviceModel.read("h100"))        plan for the shortest time

Prices are whole numbers, bytes or picoseconds, so that sums of them are equal where they should be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.model.collectives import Permute, Step
from shard_dialect.model.devices.collective_time import seconds
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Shape, Sharding
from shard_dialect.planner.operands import operand_shape

FLOPS_PER_BYTE = 100
"""Floating-point operations that cost as much as one byte moved, per device.

A product is therefore not computed redundantly just to save a few bytes.
"""
PICOSECONDS = 1e12
"""In a second."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of steps and of work: in bytes, or in picoseconds on a device model."""

    device_model: DeviceModel | None = None

    @property
    def is_time(self) -> bool:
        """Whether plans are compared by time."""
        return self.device_model is not None

    def step(self, step: Step, now: Sharding, shape: Shape, itemsize: int, grid: Grid) -> int:
        """Of one step, for a tensor of global `shape` sharded as `now`."""
        operand = operand_shape(step, now, shape, grid)
        if self.device_model is None:
            return step.bytes_moved(grid.axes_size(step.axes), operand, itemsize)
        return round(seconds(step, grid, operand, itemsize, self.device_model) * PICOSECONDS)

    def steps(
        self,
        steps: Sequence[Step],
        source: Sharding,
        shape: Shape,
        itemsize: int,
        grid: Grid,
        target_grid: Grid | None = None,
    ) -> int:
        """Of steps that follow each other; after a permutation to it, they are on `target_grid`."""
        total, now = 0, source
        for step in steps:
            total += self.step(step, now, shape, itemsize, grid)
            now = step.after(now)
            if target_grid is not None and isinstance(step, Permute) and step.grid:
                grid = target_grid
        return total

    def rounds(self, elements: Sequence[int], itemsize: int, grid: Grid) -> int:
        """Of the rounds of a transfer, in which a device sends so many elements to any other."""
        if self.device_model is None:
            return sum(elements) * itemsize
        devices = grid.size
        around = Permute(tuple(range(grid.rank)), (*range(1, devices), 0))
        times = (seconds(around, grid, (each,), itemsize, self.device_model) for each in elements)
        return round(sum(times) * PICOSECONDS)

    def work(self, flops: float, element: str, touched: int) -> float:
        """Of a product on one device, with results of an element type.

        In time, it takes as long as its arithmetic, or as reading and writing `touched` bytes.
        """
        if self.device_model is None:
            return flops / FLOPS_PER_BYTE
        computing = flops / self.device_model.flops_per_second(element)
        return max(computing, touched / self.device_model.memory_bytes_per_second) * PICOSECONDS


BYTES = Prices()
"""The prices of plans that send the fewest bytes."""
