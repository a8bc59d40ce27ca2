"""The prices by which plans are compared: bytes that a device sends, or time on a device model.

    Prices()                                plan for the fewest bytes
    Prices(DeviceModel.read("h100"))        plan for the shortest time

Prices are whole numbers, bytes or picoseconds, so that sums of them are equal where they should be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from shard_dialect.collectives import Permute, Step
from shard_dialect.collectives.collective_time import seconds
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Shape, Sharding


def bytes_moved(
    steps: Sequence[Step], source: Sharding, shape: Shape, itemsize: int, grid: Grid
) -> int:
    """The bytes per device that `steps` move, for a tensor of global `shape` sharded as `source`.

    For uneven shardings these are the bytes of the largest shard, padded to what a step divides.
    """
    total, now = 0, source
    for step in steps:
        operand = operand_shape(step, now, shape, grid)
        total += step.bytes_moved(grid.axes_size(step.axes), operand, itemsize)
        now = step.after(now)
    return total


def operand_shape(step: Step, now: Sharding, shape: Shape, grid: Grid) -> Shape:
    """The local shape of the operand of `step`: the largest shard, padded to what it divides.

    >>> from shard_dialect.collectives import ReduceScatter
    >>> operand_shape(ReduceScatter(0, (0,)), Sharding("g", ((),), (0,)), (7,), Grid("g", (4,)))
    (8,)
    """
    operand = list(now.local_shape(shape, grid))
    dim = step.cut_dim
    if step.communicates and dim is not None:
        count = grid.axes_size(step.axes)
        operand[dim] = step.after(now).local_shape(shape, grid)[dim] * count
    return tuple(operand)


FLOPS_PER_BYTE = 100
"""Floating-point operations that cost as much as one byte moved, per device.

A product is therefore not computed redundantly just to save a few bytes.
"""
PICOSECONDS = 1e12
"""The picoseconds in a second."""


@lru_cache(maxsize=1 << 14)
def _picoseconds(
    step: Step, grid: Grid, operand: Shape, itemsize: int, device_model: DeviceModel
) -> int:
    """The time of a step, of which searches ask again and again."""
    return round(seconds(step, grid, operand, itemsize, device_model) * PICOSECONDS)


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of steps and of work: in bytes, or in picoseconds on a device model."""

    device_model: DeviceModel | None = None

    @property
    def is_time(self) -> bool:
        """Whether plans are compared by time."""
        return self.device_model is not None

    def step(self, step: Step, now: Sharding, shape: Shape, itemsize: int, grid: Grid) -> int:
        """The price of one step, for a tensor of global `shape` sharded as `now`."""
        operand = operand_shape(step, now, shape, grid)
        if self.device_model is None:
            return step.bytes_moved(grid.axes_size(step.axes), operand, itemsize)
        return _picoseconds(step, grid, operand, itemsize, self.device_model)

    def steps(
        self,
        steps: Sequence[Step],
        source: Sharding,
        shape: Shape,
        itemsize: int,
        grid: Grid,
        target_grid: Grid | None = None,
    ) -> int:
        """The price of steps in a row; from a permutation to `target_grid` on they are on it."""
        total, now = 0, source
        for step in steps:
            total += self.step(step, now, shape, itemsize, grid)
            now = step.after(now)
            if target_grid is not None and isinstance(step, Permute) and step.grid:
                grid = target_grid
        return total

    def rounds(self, elements: Sequence[int], itemsize: int, grid: Grid) -> int:
        """The price of a transfer's rounds, in which a device sends so many elements to another."""
        if self.device_model is None or not elements:
            return sum(elements) * itemsize
        devices = grid.size
        around = Permute(tuple(range(grid.rank)), (*range(1, devices), 0))
        # Each device sends to the next one around the grid, whichever pairs a round really has.
        times = (seconds(around, grid, (each,), itemsize, self.device_model) for each in elements)
        return round(sum(times) * PICOSECONDS)

    def work(self, flops: float, element: str, touched: int) -> float:
        """The price of a product on one device, with results of an element type.

        In time, it takes as long as its arithmetic, or as reading and writing `touched` bytes.
        """
        if self.device_model is None:
            return flops / FLOPS_PER_BYTE
        return max(self.device_model.op_seconds(flops, element, touched)) * PICOSECONDS


BYTES = Prices()
"""The prices of plans that send the fewest bytes."""
