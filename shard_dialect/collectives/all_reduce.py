"""All devices of a group get the sum, or another reduction, of their operands.

[[], [], [0]]  ->  [[], []]          all_reduce axes [0] sum
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from shard_dialect.collectives.all_gather import GATHERING
from shard_dialect.collectives.collective_record import (
    Algorithms,
    CollectiveRecord,
    Spelling,
    log2,
)
from shard_dialect.collectives.reduce_scatter import SCATTERING
from shard_dialect.collectives.step import Step, without_partial
from shard_dialect.model.grid import Axes, axes_text
from shard_dialect.model.sharding import Reduction, Shape, Sharding


@dataclass(frozen=True, slots=True)
class AllReduce(Step):
    """Combine the partial values along `axes`; every device gets the result."""

    axes: Axes
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "all_reduce"
    reduces: ClassVar[bool] = True

    def after(self, sharding: Sharding) -> Sharding:
        """Removes `axes` from the partial axes."""
        return without_partial(sharding, self.axes, self.reduction)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """A reduce-scatter and an all-gather of the operand."""
        return 2 * (n - 1) * prod(operand) * itemsize // n

    def __str__(self) -> str:
        return f"all_reduce axes {axes_text(self.axes)} {self.reduction}"


def _mpi(site: Any) -> None:
    if site.reduces_in_mpi:
        site.reduce("Allreduce")
    elif site.count % site.size == 0:  # each device reduces its share
        with site.buffers(site.count, site.count // site.size) as (packed, shard):
            site.all_to_all(site.source, packed)
            site.combine(packed, shard)
            site.all_gather(shard, site.target)
    else:
        with site.buffers(site.count * site.size) as (packed,):
            site.all_gather(site.source, packed)
            site.combine(packed, site.target)


RECORDS = (
    CollectiveRecord(
        AllReduce,
        mesh=Spelling(
            "mesh.all_reduce",
            {"mesh_axis": ("axes", "axes"), "reduction": ("name", "reduction")},
            summary=(
                "Reduces a partial tensor: every device of a group gets the reduction of all its "
                "shards."
            ),
        ),
        local=Spelling("shard.all_reduce", {"reduction": ("reduction", "reduction")}),
        algorithms=Algorithms(
            on_switch=(
                ("ring", lambda n, a, b: 2 * (n - 1) * (a + b / n)),
                ("tree", lambda n, a, b: 2 * log2(n) * (a + b)),
                ("recursive doubling", lambda n, a, b: log2(n) * (a + b)),
                ("recursive halving", lambda n, a, b: 2 * log2(n) * a + 2 * (n - 1) / n * b),
            ),
            on_ring=(("ring", lambda n, a, b: 2 * (n // 2) * a + 2 * (n - 1) / n * b),),
            around=(SCATTERING, GATHERING),
        ),
        perform=lambda step, grid, group, *arrays: group.all_reduce(*arrays, step.reduction),
        mpi=_mpi,
        python=("reduced", lambda call, step: call.reduced("all_reduce", step.reduction)),
        is_uniform_after=True,
        stablehlo=lambda code: code.all_reduce(),
        of_stablehlo=(
            "all_reduce",
            lambda op: AllReduce(op.axes(is_ordered=False), op.reduction()),
        ),
    ),
)
