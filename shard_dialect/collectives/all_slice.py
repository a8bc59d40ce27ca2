"""All devices keep their shard of a tensor that all have.

[[], []]  ->  [[], [0]]          all_slice dim 1 axes [0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shard_dialect.collectives.collective_record import CollectiveRecord, Spelling
from shard_dialect.collectives.step import ReshardError, Step, refuse_offsets
from shard_dialect.model.grid import Axes, axes_text
from shard_dialect.model.sharding import Reduction, Sharding, ShardingError, Sizes


@dataclass(frozen=True, slots=True)
class AllSlice(Step):
    """Keep only this device's shard along `dim`, without communication; undoes `AllGather`.

    Where there are `offsets`, the shards begin at them; where there is a `halo`, the shards hold
    it, filled as by `UpdateHalo`. In both cases `dim` must be unsplit before.
    """

    dim: int
    axes: Axes
    offsets: Sizes = ()
    halo: tuple[int, int] = (0, 0)
    fill: Reduction = "sum"
    kind: ClassVar[str] = "all_slice"
    cuts: ClassVar[str] = "dim"
    communicates: ClassVar[bool] = False

    def after(self, sharding: Sharding) -> Sharding:
        """Adds `axes`, and `offsets` or the `halo`, to `dim`."""
        split = sharding.split_axes[self.dim]
        if (self.offsets or any(self.halo)) and split:
            raise ReshardError(f"offsets and halos cut a whole dimension, not one of {sharding}")
        refuse_offsets(sharding, self.dim, split)
        if any(sharding.halo(self.dim)):
            raise ReshardError(f"dimension {self.dim} of {sharding} has a halo: it is cut no more")
        sliced = sharding.with_dim(self.dim, split + self.axes, self.offsets)
        return sliced.with_halo(self.dim, self.halo, self.fill) if any(self.halo) else sliced

    def __str__(self) -> str:
        at = f" at {list(self.offsets)}" if self.offsets else ""
        at += f" halo {list(self.halo)}" if any(self.halo) else ""
        return f"all_slice dim {self.dim} axes {axes_text(self.axes)}{at}"


def _read(op: Any) -> list[Step]:
    source, target = op.source, op.target
    if op.has("sharding"):
        added = op.lists("sharding")
    else:
        pairs = zip(source.split_axes, target.split_axes, strict=False)
        added = tuple(axes[len(before) :] for before, axes in pairs)
    for axis in (axis for axes in added for axis in axes):
        if any(axis in split for split in source.split_axes):
            raise ShardingError(
                f"splits {source} along axis {axis} again: sharding lists only the axes that "
                "are added"
            )
    at = target.offsets or ((),) * target.rank
    return [
        AllSlice(dim, axes, at[dim], target.halo(dim), target.fill)
        for dim, axes in enumerate(added)
        if axes
    ]


RECORDS = (
    CollectiveRecord(
        AllSlice,
        mesh=Spelling(
            "mesh.local_split",
            {"sharding": ("split", "dim axes")},
            summary=(
                "Each device keeps its shard along the axes in `sharding`, without communication."
            ),
            optional=("sharding",),
            read=_read,
        ),
        local=Spelling("shard.all_slice", {"slice_axis": ("dimension", "dim")}),
        python=("shard", lambda call, step: call("all_slice", step.dim)),
        alone=lambda code: code.own_slice(code.operand, code.step.dim),
    ),
)
