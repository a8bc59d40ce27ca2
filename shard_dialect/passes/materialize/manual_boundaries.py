"""The edges of manual computations, materialized.

    %a = "mesh.to_local"(%x) ...      %x is brought to lie as is said, in front of the computation
    %y = "mesh.to_global"(%b) ...     %y lies as %b does, and along the manual axes

Along the free axes a tensor lies inside as propagation has it, where its shards are then the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.mesh.attributes import MANUAL, ints
from shard_dialect.ir.mesh.manual_computation import (
    TO_GLOBAL,
    boundary_of,
    write_boundary,
    write_manual_axes,
)
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered import Op
from shard_dialect.model import ManualBoundary, Sharding
from shard_dialect.model.refinement import Refinement
from shard_dialect.passes.materialize.resharded_values import ReshardedValues


@dataclass(frozen=True)
class ManualBoundaries:
    """Those of one function: `wanted` is how its values are to lie, on the finer grid `fine`."""

    shardings: Shardings
    resharded: ReshardedValues
    wanted: dict[int, Sharding]
    fine: Refinement | None

    def open(self, computation: Op) -> None:
        """Let a manual computation name axes of the grid that tensors are on from now on.

        What it gives lies outside as it is made inside: there its users have it as they like.
        """
        if self.fine is not None:
            axes = self.fine.refined_axes(tuple(ints(computation.handle.attributes[MANUAL])))
            write_manual_axes(computation.handle, MANUAL, axes)
        block = computation.blocks[0]
        made = {op.results[0]: op for op in block.ops if op.name == TO_GLOBAL}
        for value, result in zip(block.end.operands, computation.results, strict=True):
            if value in self.wanted:
                with located(made[value].handle):
                    lies = self._as_made(made[value])
                self.wanted[value] = self.wanted[result] = lies

    def _as_made(self, op: Op) -> Sharding:
        edge = self._edge(op)
        inside = edge.inside(self.wanted[op.results[0]])
        return edge.outside(edge.fitting(inside, self.resharded.shape(op.operands[0])))

    def _edge(self, op: Op) -> ManualBoundary:
        return boundary_of(op.handle, self.shardings).refined(self.fine)

    def go_in(self, op: Op) -> Sharding | None:
        """Bring what a `to_local` takes; how the shard lies, `None` for what is no tensor."""
        edge, (value,), (result,) = self._edge(op), op.operands, op.results
        if result not in self.wanted:
            write_boundary(op.handle, edge, edge.said.sharding, self.shardings)
            return None
        lies = edge.fitting(self.wanted[result], self.resharded.shape(result))
        outside = edge.outside(lies)
        op.handle.operands[0] = self.resharded.get(value, outside, op)
        write_boundary(op.handle, edge, outside, self.shardings)
        return lies

    def come_out(self, op: Op) -> Sharding | None:
        """The same for what a `to_global` takes: how the tensor lies that it makes."""
        edge, (value,), (result,) = self._edge(op), op.operands, op.results
        if result not in self.wanted:
            write_boundary(op.handle, edge, edge.said.sharding, self.shardings)
            return None
        outside = self._as_made(op)
        op.handle.operands[0] = self.resharded.get(value, edge.inside(outside), op)
        write_boundary(op.handle, edge, outside, self.shardings)
        return outside
