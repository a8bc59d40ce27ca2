"""Each device of a group gets its shard of the sum, or another reduction, of all operands.

[[], [], [], [0]]  ->  [[], [], [0]]     reduce_scatter dim 2 axes [0] sum
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from shard_dialect.collectives.all_gather import AllGather
from shard_dialect.collectives.all_slice import AllSlice
from shard_dialect.collectives.collective_record import Algorithms, CollectiveRecord, Spelling, log2
from shard_dialect.collectives.step import Step, is_within, refuse_offsets, without_partial
from shard_dialect.model.grid import Axes, axes_text
from shard_dialect.model.sharding import Reduction, Shape, Sharding


@dataclass(frozen=True, slots=True)
class ReduceScatter(Step):
    """Combine the partial values along `axes`; each device gets one shard along `dim`."""

    dim: int
    axes: Axes
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "reduce_scatter"
    reduces: ClassVar[bool] = True
    cuts: ClassVar[str] = "dim"

    def after(self, sharding: Sharding) -> Sharding:
        """Moves `axes` from the partial axes to `dim`."""
        rest = without_partial(sharding, self.axes, self.reduction)
        refuse_offsets(rest, self.dim, rest.split_axes[self.dim])
        return rest.with_dim(self.dim, rest.split_axes[self.dim] + self.axes)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """All but one of the n shards of the operand."""
        return (n - 1) * prod(operand) * itemsize // n

    def __str__(self) -> str:
        return f"reduce_scatter dim {self.dim} axes {axes_text(self.axes)} {self.reduction}"


def _mpi(site: Any) -> None:
    if site.reduces_in_mpi:
        site.reduce("Reduce_scatter_block")
        return
    with site.buffers(site.count) as (packed,):
        site.all_to_all(site.source, packed)
        site.combine(packed, site.target)


SCATTERING = Algorithms(
    on_switch=(
        ("ring", lambda n, a, b: (n - 1) * (a + b / n)),
        ("recursive halving", lambda n, a, b: log2(n) * a + (n - 1) / n * b),
    ),
    on_ring=(("ring", lambda n, a, b: n // 2 * a + (n - 1) / n * b),),
    growth=lambda n: 1 / n,
)


def _read(op: Any) -> list[Step]:
    dim, axes = op.dim("tensor_axis"), op.axes
    scattered = ReduceScatter(dim, axes, op.reduction)
    before, after = op.source.split_axes[dim], op.target.split_axes[dim]
    is_major = after != before + axes and is_within(axes, after) and is_within(before, after)
    if not is_major or len(after) != len(before) + len(axes):
        return [scattered]
    # The axes come before others, as in [1] -> [0, 1]: the shards are put in this order.
    pairs = enumerate(zip(before + axes, after, strict=True))
    kept = next(at for at, (old, new) in pairs if old != new)
    return [scattered, AllGather(dim, (before + axes)[kept:]), AllSlice(dim, after[kept:])]


RECORDS = (
    CollectiveRecord(
        ReduceScatter,
        mesh=Spelling(
            "mesh.reduce_scatter",
            {
                "mesh_axis": ("axes", "axes"),
                "tensor_axis": ("number", "dim"),
                "reduction": ("name", "reduction"),
            },
            summary="Reduces a partial tensor, and each device keeps its shard of a dimension.",
            read=_read,
        ),
        local=Spelling(
            "shard.reduce_scatter",
            {"scatter_axis": ("dimension", "dim"), "reduction": ("reduction", "reduction")},
        ),
        algorithms=SCATTERING,
        perform=lambda step, grid, group, *arrays: group.reduce_scatter(*arrays, step.reduction),
        mpi=_mpi,
        python=(
            "scattered",
            lambda call, step: call.reduced("reduce_scatter", step.reduction, step.dim),
        ),
        stablehlo=lambda code: code.reduce_scatter(code.step.dim),
        of_stablehlo=(
            "reduce_scatter",
            lambda op: ReduceScatter(op.dim("scatter_dimension"), op.axes(), op.reduction()),
        ),
    ),
)
