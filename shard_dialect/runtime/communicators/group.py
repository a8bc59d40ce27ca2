"""The exchanges that a device group offers: the interface that each kind of device implements.

Arrays are contiguous, and the code's own buffers, which share no memory: `send` has what this
device sends, `into` gets what it receives. An array with a block for each member has the blocks
along the first dimension, in the order of the group's members. A root is given by its position in
the group. Where only the root receives, the other members get zeros.
"""

from __future__ import annotations

from typing import Protocol

from shard_dialect.abi.tensor_types import Array
from shard_dialect.model import Reduction


class Group(Protocol):
    """This device's view of one device group."""

    size: int
    index: int
    """This device's position in the group."""

    def all_gather(self, send: Array, into: Array) -> None:
        """Every member's `send`, one after the other."""

    def all_reduce(self, send: Array, into: Array, reduction: Reduction) -> None:
        """The reduction of the members' `send`s."""

    def reduce_scatter(self, send: Array, into: Array, reduction: Reduction) -> None:
        """This member's block of the reduction of the members' `send`s."""

    def all_to_all(self, send: Array, into: Array) -> None:
        """This member's block of every member's `send`, one after the other."""

    def permute(self, send: Array, into: Array, to: int | None, source: int | None) -> None:
        """Receive from member `source`, and send to `to`; both may be this member, or `None`."""

    def broadcast(self, send: Array, into: Array, root: int) -> None:
        """The root's `send`."""

    def gather(self, send: Array, into: Array, root: int) -> None:
        """On the root, every member's `send`, one after the other."""

    def scatter(self, send: Array, into: Array, root: int) -> None:
        """This member's block of the root's `send`."""

    def send(self, send: Array, to: int) -> None:
        """Send to member `to`, without waiting until it receives."""

    def receive(self, into: Array, source: int | None) -> None:
        """Wait for the message that member `source` (any member, if `None`) sends."""

    def reduce(self, send: Array, into: Array, root: int, reduction: Reduction) -> None:
        """On the root, the reduction of the members' `send`s."""
