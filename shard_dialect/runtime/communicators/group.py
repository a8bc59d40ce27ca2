"""The exchanges that a device group offers; devices differ in these only.

Arrays are contiguous, and the code's own buffers: `send` is what this device gives, `into` is what
it gets. Where an array has a part for each member, the parts lie along the first dimension, in the
order of the group's members. A root is a member's place in the group; what members get that are not
the root, of what only the root gets, is zeros.
"""

from __future__ import annotations

from typing import Protocol

from shard_dialect.codegen.array_types import Array
from shard_dialect.model import Reduction


class Group(Protocol):
    """This device's view of one device group."""

    size: int
    index: int
    """This device's place in the group."""

    def all_gather(self, send: Array, into: Array) -> None:
        """Every member's `send`, one behind the other."""

    def all_reduce(self, send: Array, into: Array, reduction: Reduction) -> None:
        """The members' `send`s joined into one."""

    def reduce_scatter(self, send: Array, into: Array, reduction: Reduction) -> None:
        """This member's part of every member's `send`, joined into one."""

    def all_to_all(self, send: Array, into: Array) -> None:
        """This member's part of every member's `send`, one behind the other."""

    def permute(self, send: Array, into: Array, to: int | None, source: int | None) -> None:
        """What member `source` sends; ours goes to `to`. Both may be this member, or none."""

    def broadcast(self, send: Array, into: Array, root: int) -> None:
        """What the root sends."""

    def gather(self, send: Array, into: Array, root: int) -> None:
        """To the root every member's `send`, one behind the other."""

    def scatter(self, send: Array, into: Array, root: int) -> None:
        """This member's part of what the root sends."""

    def send(self, send: Array, to: int) -> None:
        """Give member `to`, which is to receive it, what is in `send`, without waiting for it."""

    def receive(self, into: Array, source: int | None) -> None:
        """What member `source` (any member, if `None`) has sent; wait for it."""

    def reduce(self, send: Array, into: Array, root: int, reduction: Reduction) -> None:
        """To the root the members' `send`s joined into one."""
