"""Point-to-point steps of the local form: one device sends, another receives.

    on device 0                                         on device 1
    shard.send %x on @g grid_axes = [0]                 %y = shard.recv %x on @g grid_axes = [0]
      destination = [1]                                        source = [0]

The sender and the receiver take different branches of the program, so not all devices of a group
take these steps. Messages from one device to another arrive in the order in which they were sent. A
sender does not wait. Source: upstream's documentation of the `shard` dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from shard_dialect.model.axis import Axes
from shard_dialect.model.rooted_collectives import Index
from shard_dialect.model.sharding import Shape

TAG = 1
"""The tag of point-to-point messages; collectives have 0."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send this device's shard to the one at `destination` in its group, and keep a copy."""

    axes: Axes
    destination: Index
    kind: ClassVar[str] = "send"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """Always 0."""
        return 0  # `Receive` counts them

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The same shape."""
        return shape


@dataclass(frozen=True, slots=True)
class Receive:
    """Receive from the device at `source` in this one's group, or from any device if `None`."""

    axes: Axes
    source: Index | None
    kind: ClassVar[str] = "recv"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The operand, once."""
        return prod(operand) * itemsize

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The same shape."""
        return shape


Message = Send | Receive
