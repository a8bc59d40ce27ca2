"""Steps of the local form between two devices: what one sends, the other receives.

    on device 0                                         on device 1
    shard.send %x on @g grid_axes = [0]                 %y = shard.recv %x on @g grid_axes = [0]
      destination = [1]                                        source = [0]

Devices that send and devices that receive take other branches, so these are the steps that not all
of a group do. What one device sends another arrives in the order in which it was sent; a sender
does not wait. Source: upstream's documentation of the `shard` dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from shard_dialect.model.axis import Axes
from shard_dialect.model.rooted_collectives import Index
from shard_dialect.model.sharding import Shape

TAG = 1
"""Of messages that devices send; exchanges of whole groups have 0."""


@dataclass(frozen=True, slots=True)
class Send:
    """Give what this device has to the one at `destination` in its group, and keep it."""

    axes: Axes
    destination: Index
    kind: ClassVar[str] = "send"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return 0  # they are counted where they are received

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return shape


@dataclass(frozen=True, slots=True)
class Receive:
    """Get what the device at `source` in this one's group has sent, or any device if `None`."""

    axes: Axes
    source: Index | None
    kind: ClassVar[str] = "recv"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return prod(operand) * itemsize

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return shape


Message = Send | Receive
