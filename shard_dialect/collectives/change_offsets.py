"""Shards of a dimension begin elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, ClassVar

from shard_dialect.collectives.collective_record import (
    CollectiveRecord,
    Round,
    Spelling,
    across,
    at_distance,
)
from shard_dialect.collectives.step import ReshardError, Step
from shard_dialect.model import windows
from shard_dialect.model.grid import Axes, Grid, axes_text
from shard_dialect.model.sharding import Shape, Sharding, ShardingError, Sizes


@dataclass(frozen=True, slots=True)
class ChangeOffsets(Step):
    """Let the shards of `dim`, which `axes` split, begin elsewhere: elements change devices.

    `source` and `target` are the bounds of the shards: where each begins, and where the last one
    ends. `offsets` are those of the target sharding, () for equal shards.

        a b c | d e         source (0, 3, 5)
        a | b c d e         target (0, 1, 5): the first device sends b and c to the second
    """

    dim: int
    axes: Axes
    source: tuple[int, ...]
    target: tuple[int, ...]
    offsets: Sizes = ()
    kind: ClassVar[str] = "change_offsets"

    def after(self, sharding: Sharding) -> Sharding:
        """Replaces the offsets of `dim`."""
        if sharding.split_axes[self.dim] != self.axes or any(sharding.halo(self.dim)):
            raise ReshardError(
                f"dimension {self.dim} of sharding {sharding} is not split along "
                f"{axes_text(self.axes)}, without a halo"
            )
        return sharding.with_dim(self.dim, self.axes, self.offsets)

    def overlap(self, device: int, distance: int) -> tuple[int, int]:
        """The elements of a device's shard that are then on the device `distance` positions on.

        From the first to the one after the last; equal numbers where there are none.
        """
        to = device + distance
        if not 0 <= to < len(self.target) - 1:
            return 0, 0
        begin = max(self.source[device], self.target[to])
        return begin, max(begin, min(self.source[device + 1], self.target[to + 1]))

    def messages(self) -> dict[int, int]:
        """The most elements that a device sends, by the distance to the receiver, 0 included."""
        devices = range(len(self.source) - 1)
        counts = {}
        for distance in range(-devices[-1], len(devices)):
            overlaps = [self.overlap(device, distance) for device in devices]
            count = max(end - begin for begin, end in overlaps)
            if count:
                counts[distance] = count
        return counts

    def exchange(self) -> tuple[windows.Round, ...]:
        """The boxes that devices keep and send, a round for each distance.

        A device sends as many elements as the one that sends most at this distance. Those that are
        too many are the next in the tensor, so that the box after it, which has these, hides them.
        """
        rounds = []
        for distance, size in sorted(self.messages().items(), reverse=True):
            boxes = []
            for device in range(len(self.source) - 1):
                begin, end = self.overlap(device, distance)
                if end > begin:
                    to = device + distance
                    at = begin - self.source[device], begin - self.target[to]
                    boxes.append(windows.Box(device, to, *at))
            rounds.append(windows.Round(size, tuple(boxes)))
        return tuple(rounds)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The messages to other devices, each as long as the longest at its distance."""
        count = sum(count for distance, count in self.messages().items() if distance)
        return count * across(operand, self.dim) * itemsize if n > 1 else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The size of the largest shard."""
        size = max(end - begin for begin, end in pairwise(self.target))
        return (*shape[: self.dim], size, *shape[self.dim + 1 :])

    def __str__(self) -> str:
        bounds = f"{list(self.source)} to {list(self.target)}"
        return f"change_offsets dim {self.dim} axes {axes_text(self.axes)} {bounds}"


def _rounds(
    step: ChangeOffsets, sizes: Sequence[int], shape: Shape, itemsize: int
) -> Iterator[Round]:
    row = across(shape, step.dim) * itemsize
    for distance, count in step.messages().items():
        if distance:
            yield at_distance(distance, prod(sizes)), count * row


def _read(op: Any) -> list[Step]:
    dim = op.dim("tensor_axis")
    at = [each.offsets[dim] if each.offsets else () for each in (op.source, op.target)]
    if not any(at):
        raise ShardingError(f"has no offsets of dimension {dim} in its types")
    devices = Grid(op.source.grid, (max(map(len, at)) - 1,))
    if all(at) and len(at[0]) != len(at[1]):
        raise ShardingError(f"has {len(at[0])} and {len(at[1])} offsets of dimension {dim}")
    size = op.sizes[dim]
    bounds = [Sharding("", ((0,),), offsets=(each,)).bounds(0, size, devices) for each in at]
    return [ChangeOffsets(dim, op.target.split_axes[dim], bounds[0], bounds[1], at[1])]


RECORDS = (
    CollectiveRecord(
        ChangeOffsets,
        rounds=_rounds,
        mesh=Spelling(
            "mesh.change_offsets",
            {"tensor_axis": ("number", "dim")},
            summary="The shards of a dimension begin at other offsets, those in the result's type.",
            read=_read,
        ),
    ),
)
