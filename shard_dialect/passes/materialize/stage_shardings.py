"""The axes along which tensors of stages are not sharded: those that their stages have not all of.

Propagation knows no stages. Where a constant is used by all devices and by a stage, say, it may
have given a tensor of the stage a split along an axis along which the stage has one index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from shard_dialect.ir.function import BOUNDARY
from shard_dialect.ir.grids import sub_clusters_of
from shard_dialect.ir.mesh.attributes import STAGES, symbol
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.mesh.stage_attributes import stages_at, stages_named
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.model import Axes, Grid, Sharding, SubCluster
from shard_dialect.model.axis import full_axis
from shard_dialect.model.sub_cluster import Place
from shard_dialect.passes.stages.assign_stages import StageAnnotations, Stages


@dataclass(frozen=True)
class StageShardings:
    """The shardings that tensors of one function may have on its stages."""

    function: Function
    shardings: Shardings

    @cached_property
    def transfers(self) -> list[Op]:
        """The ops that pass a tensor from one stage to another."""
        return [op for op in self.function.ops if STAGES in op.handle.attributes]

    @cached_property
    def _sub_clusters(self) -> Mapping[str, SubCluster]:
        return sub_clusters_of(self.function.handle.parent)

    def grids(self) -> set[str]:
        """The names of the grids that transfers are on."""
        return {symbol(op.handle.attributes["cluster"]) for op in self.transfers}

    def place(self, stage: str, grid: Grid) -> Place:
        """Where a stage is on `grid`, or all devices are."""
        part = self._sub_clusters.get(stage)
        return Place(grid) if part is None else part.place(self.shardings.grid(part.of), grid)

    def places(self, transfer: Op, grid: Grid) -> tuple[Place, Place]:
        """Where the source and the target of a transfer are on `grid`."""
        names = stages_named(transfer.handle)
        assert names is not None, "a transfer names its stages"
        source, target = (self.place(name, grid) for name in names)
        return source, target

    def allowed(self, of: Mapping[int, Sharding]) -> dict[int, Sharding]:
        """The shardings `of` values, without axes that the values' stages have not all of."""
        if not self.transfers:
            return dict(of)
        arguments, results = (stages_at(self.function.handle, key) for key in BOUNDARY)
        parts = self._sub_clusters.values()
        whole = next(iter(parts)).of if parts else ""
        annotations = StageAnnotations(arguments, results, stages_named)
        stages = Stages(self.function, annotations, whole)
        allowed = {}
        for value, sharding in of.items():
            stage, grid = stages.of_value(value), self.shardings.grid(sharding.grid)
            # Of a constant, say, which several stages may use, no axis of a stage.
            is_shared = stage is None and not stages.is_bound(value)
            axes = grid.stage_axes if is_shared else self.place(stage or whole, grid).axes
            allowed[value] = without_axes(sharding, axes)
        return allowed


def without_axes(sharding: Sharding, axes: Collection[int]) -> Sharding:
    """The sharding without the (sub-)axes of `axes`.

    >>> str(without_axes(Sharding("g", ((0, 1), (2,))), {0}))
    '[[1], [2]]'
    """

    def kept(each: Axes) -> Axes:
        return tuple(axis for axis in each if full_axis(axis) not in axes)

    if not any(full_axis(axis) in axes for axis in sharding.axes):
        return sharding
    split, partial = tuple(map(kept, sharding.split_axes)), kept(sharding.partial)
    return replace(sharding, split_axes=split, partial=partial, halos=(), offsets=())
