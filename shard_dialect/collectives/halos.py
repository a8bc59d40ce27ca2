"""Shards get, and drop, elements of the neighbouring shards.

[[0]]  ->  [[0], {halo = [[1, 1]]}]          update_halo dim 0 axes [0] [1, 1]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from shard_dialect.collectives.collective_record import (
    CollectiveRecord,
    Round,
    Spelling,
    across,
    at_distance,
)
from shard_dialect.collectives.step import NOBODY, ReshardError, Step
from shard_dialect.model.grid import Axes, Grid, axes_text
from shard_dialect.model.sharding import Reduction, Shape, Sharding, ShardingError


@dataclass(frozen=True, slots=True)
class HaloMessage:
    """Send `count` rows from row `sent` on to the device `to` positions on.

    As many rows arrive from the device `to` positions before, for row `put` on.
    """

    sent: int
    count: int
    put: int
    to: int


@dataclass(frozen=True, slots=True)
class UpdateHalo(Step):
    """Fill the halo along `dim`, which `axes` split, with elements of the neighbouring shards.

    The halo is `low` elements before the device's own and `high` after, and may span several
    shards. The operand already has room for it. At the ends of the tensor the halo keeps the
    identity of the reduction `fill`:

        0 | a b c | d        x x | a b c  ->  low 1, high 1  <-  d e f | x x

    Dimensions are updated one after the other. Each update passes on the halos of those before it,
    so that corners arrive from devices that are diagonal neighbours.
    """

    dim: int
    axes: Axes
    low: int
    high: int
    fill: Reduction = "sum"
    kind: ClassVar[str] = "update_halo"
    exchanges: ClassVar[str] = "dim"

    def after(self, sharding: Sharding) -> Sharding:
        """Adds the halo to `dim`."""
        if sharding.split_axes[self.dim] != self.axes or any(sharding.halo(self.dim)):
            raise ReshardError(
                f"dimension {self.dim} of sharding {sharding} is not split along "
                f"{axes_text(self.axes)}, without a halo"
            )
        return sharding.with_halo(self.dim, (self.low, self.high), self.fill)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The halo that a device with neighbours on both sides receives."""
        return (self.low + self.high) * across(operand, self.dim) * itemsize if n > 1 else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The same shape; raises if the halo leaves no room for a shard."""
        if self.low + self.high >= shape[self.dim]:
            raise ShardingError(
                f"halo [{self.low}, {self.high}] of dimension {self.dim} of {list(shape)} leaves "
                "nothing of the shard itself"
            )
        return shape

    def check_fits(self, shape: Shape, n: int) -> None:
        """Raise `ShardingError` unless there is such a dimension, and no size is negative."""
        if self.dim >= len(shape) or min(self.low, self.high) < 0:
            raise ShardingError(f"has no such halo on {list(shape)}: {self}")

    def messages(self, rows: int) -> tuple[HaloMessage, ...]:
        """The messages that fill the halo, nearest devices first.

        `rows` is the local size of the dimension, halos included.

        >>> for each in UpdateHalo(0, (0,), low=3, high=1).messages(rows=6):
        ...     print(each)
        HaloMessage(sent=3, count=2, put=1, to=1)
        HaloMessage(sent=3, count=1, put=5, to=-1)
        HaloMessage(sent=4, count=1, put=0, to=2)
        >>> UpdateHalo(0, (0,), low=0, high=0).messages(rows=0)
        ()
        """
        end = rows - self.high
        size = end - self.low
        messages = []
        farthest = -(-max(self.low, self.high) // size) if size else 0
        for distance in range(1, farthest + 1):
            nearer = (distance - 1) * size  # the rows of the halo that nearer devices send
            down, up = (min(max(halo - nearer, 0), size) for halo in (self.low, self.high))
            if down:
                messages.append(HaloMessage(end - down, down, self.low - nearer - down, distance))
            if up:
                messages.append(HaloMessage(self.low, up, end + nearer, -distance))
        return tuple(messages)

    def __str__(self) -> str:
        halo = f"[{self.low}, {self.high}]"
        fill = "" if self.fill == "sum" else f" {self.fill}"
        return f"update_halo dim {self.dim} axes {axes_text(self.axes)} {halo}{fill}"


@dataclass(frozen=True, slots=True)
class CropHalo(Step):
    """Reduce the halo along `dim` to `low` and `high` elements, without communication."""

    dim: int
    low: int = 0
    high: int = 0
    axes: Axes = ()
    kind: ClassVar[str] = "crop_halo"
    communicates: ClassVar[bool] = False

    def after(self, sharding: Sharding) -> Sharding:
        """Reduces the halo of `dim`."""
        low, high = sharding.halo(self.dim)
        if self.low > low or self.high > high:
            raise ReshardError(
                f"[{self.low}, {self.high}] is no part of the halo of dimension {self.dim} in "
                f"sharding {sharding}"
            )
        return sharding.with_halo(self.dim, (self.low, self.high), sharding.fill)

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """Always raises: the result depends on the halo before."""
        raise ShardingError("what is left without a halo depends on the halo there was")

    def __str__(self) -> str:
        return f"crop_halo dim {self.dim} to [{self.low}, {self.high}]"


def _rounds(step: UpdateHalo, sizes: Sequence[int], shape: Shape, itemsize: int) -> Iterator[Round]:
    """The k-th message has the part of the halo that the k-th neighbour holds."""
    row = across(shape, step.dim) * itemsize
    for each in step.messages(shape[step.dim]):
        yield at_distance(each.to, prod(sizes)), each.count * row


def _perform(step: UpdateHalo, grid: Grid, group: Any, source: Any, target: Any) -> None:
    def at(distance: int) -> int | None:
        member = group.index + distance
        return member if 0 <= member < group.size else None

    target[...] = source
    for each in step.messages(len(target)):
        sent, put = (target[first : first + each.count] for first in (each.sent, each.put))
        group.permute(sent, put, at(each.to), at(-each.to))


def _mpi(site: Any) -> None:
    site.copy()
    for each in site.step.messages(site.rows):
        to = [member + each.to for member in range(site.size)]
        members = [member if 0 <= member < site.size else NOBODY for member in to]
        site.exchange(site.at(each.sent), site.at(each.put), each.count * site.row, members)


def _stablehlo(code: Any) -> Any:
    value, dim = code.operand, code.step.dim
    for each in code.step.messages(value.type.shape[dim]):
        pairs = at_distance(each.to, code.size)
        if pairs:
            got = code.permuted(code.slice(value, dim, each.sent, each.count), pairs)
            value = code.received(value, got, dim, each.put, {to for _, to in pairs})
    return value


_SPELLING = Spelling(
    "mesh.update_halo",
    summary=(
        "Each device gets, or drops, elements next to its shard: the halo in the result's type."
    ),
    read=lambda op: op.halo_steps(),
)

RECORDS = (
    CollectiveRecord(
        UpdateHalo,
        mesh=_SPELLING,
        local=Spelling(
            "shard.update_halo",
            {"split_axes": ("split", "dim axes"), "static_halo_sizes": ("halo", "low high")},
        ),
        rounds=_rounds,
        perform=_perform,
        mpi=_mpi,
        is_one_mpi_call=False,
        python=("widened", lambda call, s: call("update_halo", s.dim, s.low, s.high)),
        stablehlo=_stablehlo,
    ),
    CollectiveRecord(CropHalo, mesh=_SPELLING),
)
