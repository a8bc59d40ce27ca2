"""Steps between shardings that differ only in their halos.

    [[0], []]  ->  [[0], [], {halo = [[1, 2], []]}]                  update_halo
    [[0], [], {halo = [[1, 2], []]}]  ->  [[0], [], {halo = [[0, 2], []]}]     crop_halo

To enlarge the halo of a dimension, the steps drop it and exchange all of it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.model.collectives import AllSlice, CropHalo, ReshardError, Step, UpdateHalo
from shard_dialect.model.sharding import Sharding


def halo_steps(source: Sharding, target: Sharding) -> tuple[Step, ...]:
    """The crops, and then the updates.

    Raises `ReshardError` where more than halos differs, or a partial tensor has halos.
    """
    if source.bare != target.bare:
        raise ReshardError(f"{source} and {target} differ in more than halos")
    if source.partial and (source.halos or target.halos):
        raise ReshardError(f"parts of a {source.reduction} have no halos, found {source}")
    crops: list[Step] = []
    updates: list[Step] = []
    for dim, axes in enumerate(source.split_axes):
        source_halo, target_halo = source.halo(dim), target.halo(dim)
        is_contained = target_halo[0] <= source_halo[0] and target_halo[1] <= source_halo[1]
        kept = target_halo if is_contained and source.fill == target.fill else (0, 0)
        if kept != source_halo:
            crops.append(CropHalo(dim, *kept))
        if kept != target_halo:
            updates.append(UpdateHalo(dim, axes, *target_halo, target.fill))
    return (*crops, *updates)


def sliced_with_halos(source: Sharding, target: Sharding) -> tuple[AllSlice, ...]:
    """The slices of dimensions that every device has all of, with the halos that they get.

    What is sliced off a whole tensor needs no exchange of halos.
    """
    used = {axis for axes in source.split_axes for axis in axes} | set(source.partial)
    return tuple(
        AllSlice(dim, axes, halo=target.halo(dim), fill=target.fill)
        for dim, axes in enumerate(target.split_axes)
        if any(target.halo(dim)) and not source.split_axes[dim] and not used & set(axes)
    )


@dataclass(frozen=True, slots=True)
class HaloMessage:
    """Send `count` rows from row `sent` on to the device `to` positions on.

    As many rows arrive from the device `to` positions before, for row `put` on.
    """

    sent: int
    count: int
    put: int
    to: int


def halo_messages(step: UpdateHalo, rows: int) -> tuple[HaloMessage, ...]:
    """The messages that fill a halo, nearest devices first.

    `rows` is the local size of the dimension, halos included.

    >>> for each in halo_messages(UpdateHalo(0, (0,), low=3, high=1), rows=6):
    ...     print(each)
    HaloMessage(sent=3, count=2, put=1, to=1)
    HaloMessage(sent=3, count=1, put=5, to=-1)
    HaloMessage(sent=4, count=1, put=0, to=2)
    >>> halo_messages(UpdateHalo(0, (0,), low=0, high=0), rows=0)
    ()
    """
    end = rows - step.high
    size = end - step.low
    messages = []
    farthest = -(-max(step.low, step.high) // size) if size else 0
    for distance in range(1, farthest + 1):
        nearer = (distance - 1) * size  # the rows of the halo that nearer devices send
        down, up = (min(max(halo - nearer, 0), size) for halo in (step.low, step.high))
        if down:
            messages.append(HaloMessage(end - down, down, step.low - nearer - down, distance))
        if up:
            messages.append(HaloMessage(step.low, up, end + nearer, -distance))
    return tuple(messages)
