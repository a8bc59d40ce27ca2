"""Point-to-point steps of the local form: one device sends, another receives.

    on device 0                                         on device 1
    shard.send %x on @g grid_axes = [0]                 %y = shard.recv %x on @g grid_axes = [0]
      destination = [1]                                        source = [0]

The sender and the receiver take different branches of the program, so not all devices of a group
take these steps. Messages from one device to another arrive in the order in which they were sent. A
sender does not wait. Source: upstream's documentation of the `shard` dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from shard_dialect.collectives.collective_record import CollectiveRecord, Round, Spelling
from shard_dialect.collectives.step import Index, LocalStep
from shard_dialect.model.grid import Axes, Grid
from shard_dialect.model.sharding import Shape

TAG = 1
"""The tag of point-to-point messages; collectives have 0."""


@dataclass(frozen=True, slots=True)
class Send(LocalStep):
    """Send this device's shard to the one at `destination` in its group, and keep a copy.

    It costs nothing: the receiver waits, and counts the bytes.
    """

    axes: Axes
    destination: Index
    kind: ClassVar[str] = "send"
    names: ClassVar[str] = "destination"
    is_message: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Receive(LocalStep):
    """Receive from the device at `source` in this one's group, or from any device if `None`."""

    axes: Axes
    source: Index | None
    kind: ClassVar[str] = "recv"
    names: ClassVar[str] = "source"
    is_message: ClassVar[bool] = True

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The operand, once."""
        return prod(operand) * itemsize


def _rounds(step: Receive, sizes: Sequence[int], shape: Shape, itemsize: int) -> list[Round]:
    members, origin = range(prod(sizes)), step.member(sizes)
    sources = members if origin is None else (origin,)
    pairs = [(source, to) for source in sources for to in members if to != source]
    return [(pairs, prod(shape) * itemsize)]


def _send(step: Send, grid: Grid, group: Any, source: Any, target: Any) -> None:
    group.send(source, step.member(grid.sizes_along(step.axes)))
    target[...] = source


def _receive_in_python(call: Any, step: Receive) -> Any:
    return call("receive", *([] if step.source is None else [call.member(step)]))


RECORDS = (
    CollectiveRecord(
        Send,
        local=Spelling("shard.send", {"destination": ("device", "destination")}),
        perform=_send,
        mpi=lambda site: site.send(site.member),
        python=(
            "sent",
            lambda call, step: call.statement("send", call.member(step)),
        ),
        is_one_mpi_call=False,
    ),
    CollectiveRecord(
        Receive,
        local=Spelling("shard.recv", {"source": ("sender", "source")}),
        rounds=_rounds,
        perform=lambda step, grid, group, _, target: group.receive(
            target, step.member(grid.sizes_along(step.axes))
        ),
        mpi=lambda site: site.receive(site.member),
        python=("received", _receive_in_python),
        is_one_mpi_call=False,
    ),
)
