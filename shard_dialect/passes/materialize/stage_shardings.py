"""The axes along which tensors of stages are not sharded: the fixed axes of their stages.

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

    def fixed(self, stage: str, grid: Grid) -> Collection[int]:
        """The axes of `grid` along which a stage has one index; none of all devices."""
        part = self._sub_clusters.get(stage)
        return part.fixed_axes(self.shardings.grid(part.of), grid) if part is not None else ()

    def fixed_by_either(self, transfer: Op, grid: Grid) -> set[int]:
        """The axes of `grid` that the source or the target of a transfer fixes."""
        names = stages_named(transfer.handle) or ()
        return {axis for name in names for axis in self.fixed(name, grid)}

    def allowed(self, of: Mapping[int, Sharding]) -> dict[int, Sharding]:
        """The shardings `of` values, without the fixed axes of the values' stages."""
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
            axes = grid.stage_axes if is_shared else self.fixed(stage or whole, grid)
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
