"""Shards of one dimension become shards of another.

[[0], []]  ->  [[], [0]]          all_to_all dim 0 to 1 axes [0]
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from shard_dialect.collectives.collective_record import Algorithms, CollectiveRecord, Spelling, log2
from shard_dialect.collectives.step import Step, refuse_offsets, without_suffix
from shard_dialect.model.grid import Axes, axes_text
from shard_dialect.model.sharding import Shape, Sharding, ShardingError


@dataclass(frozen=True, slots=True)
class AllToAll(Step):
    """Move `axes` from the minor end of dimension `source_dim` to that of `target_dim`.

    In the local form both may be the same: slices trade positions.
    """

    source_dim: int
    target_dim: int
    axes: Axes
    kind: ClassVar[str] = "all_to_all"
    joins: ClassVar[str] = "source_dim"
    cuts: ClassVar[str] = "target_dim"

    def after(self, sharding: Sharding) -> Sharding:
        """Moves `axes` from `source_dim` to `target_dim`."""
        for dim in (self.source_dim, self.target_dim):
            refuse_offsets(sharding, dim, sharding.split_axes[dim])
        rest = without_suffix(sharding, self.source_dim, self.axes)
        return rest.with_dim(self.target_dim, rest.split_axes[self.target_dim] + self.axes)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """All but one of the n slices of the operand."""
        return (n - 1) * prod(operand) * itemsize // n

    def __str__(self) -> str:
        return f"all_to_all dim {self.source_dim} to {self.target_dim} axes {axes_text(self.axes)}"


def _read(op: Any) -> list[Step]:
    joined, cut = op.dim("concat_axis"), op.dim("split_axis")
    if joined == cut:
        raise ShardingError(f"split_axis and concat_axis are both {cut}: they must differ")
    return [AllToAll(joined, cut, op.axes)]


RECORDS = (
    CollectiveRecord(
        AllToAll,
        mesh=Spelling(
            "mesh.all_to_all",
            {
                "mesh_axis": ("axes", "axes"),
                "split_axis": ("number", "target_dim"),
                "concat_axis": ("number", "source_dim"),
            },
            summary="Moves axes from dimension `concat_axis` to dimension `split_axis`.",
            read=_read,
        ),
        local=Spelling(
            "shard.all_to_all",
            {"split_axis": ("dimension", "target_dim"), "concat_axis": ("dimension", "source_dim")},
        ),
        algorithms=Algorithms(
            on_switch=(
                ("pairwise", lambda n, a, b: (n - 1) * (a + b / n)),
                ("Bruck", lambda n, a, b: log2(n) * (a + b / 2)),
            ),
            # A slice passes n / 4 links on the average.
            on_ring=(("ring", lambda n, a, b: n // 2 * a + n / 4 * b),),
        ),
        perform=lambda step, grid, group, *arrays: group.all_to_all(*arrays),
        mpi=lambda site: site.all_to_all(site.source, site.target),
        python=(
            "exchanged",
            lambda call, step: call("all_to_all", step.target_dim, step.source_dim),
        ),
        stablehlo=lambda code: code.all_to_all(
            code.operand, code.type, code.step.source_dim, code.step.target_dim
        ),
        of_stablehlo=(
            "all_to_all",
            lambda op: AllToAll(op.dim("concat_dimension"), op.dim("split_dimension"), op.axes()),
        ),
    ),
)
