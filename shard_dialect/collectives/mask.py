"""A replicated tensor becomes partial.

[[]]  ->  [[], [0]]          mask axes [0] sum
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shard_dialect.collectives.collective_record import CollectiveRecord, Spelling
from shard_dialect.collectives.step import ReshardError, Step
from shard_dialect.model.grid import Axes, axes_text
from shard_dialect.model.sharding import Reduction, Sharding


@dataclass(frozen=True, slots=True)
class Mask(Step):
    """Make a tensor that is replicated along `axes` partial over them, without communication.

    The first device of each group keeps its shard. The others replace theirs by the identity of the
    reduction (0 for a sum). The inverse of `AllReduce`.
    """

    axes: Axes
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "mask"
    communicates: ClassVar[bool] = False

    def after(self, sharding: Sharding) -> Sharding:
        """Adds `axes` to the partial axes."""
        if sharding.partial and sharding.reduction != self.reduction:
            raise ReshardError(
                f"sharding {sharding} is partial {sharding.reduction}, it cannot become partial "
                f"{self.reduction} as well"
            )
        return sharding.with_partial(sharding.partial + self.axes, self.reduction)

    def __str__(self) -> str:
        return f"mask axes {axes_text(self.axes)} {self.reduction}"


_SPELLING = Spelling(
    "mesh.mask",
    {"mesh_axis": ("axes", "axes"), "reduction": ("name", "reduction")},
    summary=("A replicated tensor becomes partial: the first device of a group keeps its shard."),
    optional=("cluster",),
)

RECORDS = (
    CollectiveRecord(
        Mask,
        mesh=_SPELLING,
        local=_SPELLING,
        python=("masked", lambda call, step: call("mask", call.identity(step.reduction))),
        alone=lambda code: code.only_on(0, code.operand, code.step.reduction),
    ),
)
