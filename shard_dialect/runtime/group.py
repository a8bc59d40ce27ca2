"""The exchanges that a device group offers; devices differ in these only."""

from __future__ import annotations

from typing import Protocol

from shard_dialect.model import Reduction
from shard_dialect.runtime.arrays import Array


class Group(Protocol):
    """This device's view of one device group. Rows are in the order of the group's members."""

    size: int
    index: int
    """This device's place in the group."""

    def all_gather(self, send: Array) -> Array:
        """Every member's `send`, one row each."""

    def all_reduce(self, send: Array, reduction: Reduction) -> Array:
        """The members' `send`s joined into one."""

    def reduce_scatter(self, send: Array, reduction: Reduction) -> Array:
        """Row `index` of every member's `send`, joined into one."""

    def all_to_all(self, send: Array) -> Array:
        """Row `index` of every member's `send`, one row each."""

    def permute(self, send: Array, to: int | None, source: int | None) -> Array | None:
        """What member `source` sends; ours goes to `to`. Both may be this member, or none."""
