"""Steps between shardings that differ in their halos only.

    [[0], []]  ->  [[0], [], {halo = [[1, 2], []]}]                  update_halo
    [[0], [], {halo = [[1, 2], []]}]  ->  [[0], [], {halo = [[0, 2], []]}]     crop_halo

A dimension that is to have more than there is begins from nothing.
"""

from __future__ import annotations

from shard_dialect.model.sharding import Sharding
from shard_dialect.model.steps import CropHalo, ReshardError, Step, UpdateHalo


def halo_steps(source: Sharding, target: Sharding) -> tuple[Step, ...]:
    """The crops, and then the exchanges. Raises `ReshardError` where more than halos differs."""
    if source.bare != target.bare:
        raise ReshardError(f"{source} and {target} differ in more than halos")
    if source.partial and (source.halos or target.halos):
        raise ReshardError(f"parts of a {source.reduction} have no halos, found {source}")
    crops: list[Step] = []
    updates: list[Step] = []
    for dim, axes in enumerate(source.split_axes):
        have, want = source.halo(dim), target.halo(dim)
        is_part = want[0] <= have[0] and want[1] <= have[1]
        kept = want if is_part and source.fill == target.fill else (0, 0)
        if kept != have:
            crops.append(CropHalo(dim, *kept))
        if kept != want:
            updates.append(UpdateHalo(dim, axes, *want, target.fill))
    return (*crops, *updates)
