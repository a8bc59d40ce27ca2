"""All devices of a group get all shards of a dimension.

[[], [], [0]]  ->  [[], [], []]          all_gather dim 2 axes [0]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from shard_dialect.collectives.all_slice import AllSlice
from shard_dialect.collectives.collective_record import (
    Algorithms,
    CollectiveRecord,
    Spelling,
    log2,
)
from shard_dialect.collectives.step import Step, is_within, without_suffix
from shard_dialect.model.grid import Axes, axes_text
from shard_dialect.model.sharding import Shape, Sharding, ShardingError


@dataclass(frozen=True, slots=True)
class AllGather(Step):
    """Give every device of a group all the group's shards of dimension `dim`, in group order.

    `axes` are the minor-most axes that split `dim`: [[0, 1]] -> [[0]] gathers axes [1]. Where the
    shards begin at offsets, `axes` are all the axes that split `dim`.
    """

    dim: int
    axes: Axes
    kind: ClassVar[str] = "all_gather"
    joins: ClassVar[str] = "dim"

    def after(self, sharding: Sharding) -> Sharding:
        """Removes `axes` from `dim`."""
        return without_suffix(sharding, self.dim, self.axes)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The shards of the n - 1 other devices."""
        return (n - 1) * prod(operand) * itemsize

    def __str__(self) -> str:
        return f"all_gather dim {self.dim} axes {axes_text(self.axes)}"


GATHERING = Algorithms(
    on_switch=(
        ("ring", lambda n, a, b: (n - 1) * (a + b)),
        ("Bruck", lambda n, a, b: log2(n) * a + (n - 1) * b),
    ),
    # In both directions at once: n // 2 steps reach everyone.
    on_ring=(("ring", lambda n, a, b: n // 2 * a + (n - 1) * b),),
    growth=lambda n: n,
    outside_first=True,
)


def _read(op: Any) -> list[Step]:
    by_dim = op.lists("mesh_axis")
    gathered = [dim for dim, axes in enumerate(by_dim) if axes]
    if op.has("tensor_axis"):
        dims = op.numbers("tensor_axis")
        if sorted(dims) != gathered:
            raise ShardingError(
                f"mesh_axis gathers dimensions {gathered}, but tensor_axis is {dims}"
            )
    split = op.source.split_axes
    return [step for dim in gathered for step in _gather(dim, split[dim], by_dim[dim])]


def _gather(dim: int, split: Axes, axes: Axes) -> Iterator[Step]:
    """Gather `axes` of those that split `dim`, also where minor ones follow them: [1, 0] -> [0].

    Then all from the first of them on are gathered, and the others split the dimension again.
    """
    if split[-len(axes) :] == axes or not is_within(axes, split):
        yield AllGather(dim, axes)  # whether the axes are there is checked by the step
        return
    first = split.index(axes[0])
    yield AllGather(dim, split[first:])
    yield AllSlice(dim, tuple(axis for axis in split[first:] if axis not in axes))


RECORDS = (
    CollectiveRecord(
        AllGather,
        mesh=Spelling(
            "mesh.all_gather",
            {"mesh_axis": ("split", "dim axes")},
            summary="Every device of a group gets all the group's shards of a dimension.",
            optional=("tensor_axis",),
            read=_read,
        ),
        local=Spelling("shard.all_gather", {"gather_axis": ("dimension", "dim")}),
        algorithms=GATHERING,
        perform=lambda step, grid, group, *arrays: group.all_gather(*arrays),
        mpi=lambda site: site.all_gather(site.source, site.target),
        python=("gathered", lambda call, step: call("all_gather", step.dim)),
        is_uniform_after=True,
        stablehlo=lambda code: code.all_gather(code.step.dim),
        of_stablehlo=("all_gather", lambda op: AllGather(op.dim("all_gather_dim"), op.axes())),
    ),
)
