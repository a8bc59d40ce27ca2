"""Materialize the manual boundaries: the tensors that enter or leave manual computations.

    %a = "mesh.to_local"(%x) ...      %x is resharded to the boundary's sharding, before the op
    %y = "mesh.to_global"(%b) ...     %y has the sharding of %b, and is split along the manual axes

Along the free axes a tensor has the sharding that propagation gave it, as far as this leaves every
device the same elements inside and outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.mesh.attributes import MANUAL, ints
from shard_dialect.ir.mesh.manual_computation import (
    TO_GLOBAL,
    boundary_of,
    grid_of,
    write_boundary,
    write_manual_axes,
)
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Op
from shard_dialect.model import Grid, ManualBoundary, Sharding
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.passes.materialize.resharded_values import ReshardedValues


@dataclass(frozen=True)
class ManualBoundaries:
    """The manual boundaries of one function.

    `target_of` has the target sharding of each value, by number. `refinement_of` returns the
    refinement of the grid of a manual computation, or `None` if it was not refined.
    """

    shardings: Shardings
    resharded: ReshardedValues
    target_of: dict[int, Sharding]
    refinement_of: Callable[[Grid], Refinement | None]

    def open(self, computation: Op) -> None:
        """Rewrite the manual axes on the refined grid, and set the targets of the results.

        A result has outside the sharding in which it is made inside; its users reshard it.
        """
        fine = self.refinement_of(grid_of(computation.handle, self.shardings))
        if fine is not None:
            axes = fine.refined_axes(tuple(ints(computation.handle.attributes[MANUAL])))
            write_manual_axes(computation.handle, MANUAL, axes)
        block = computation.blocks[0]
        to_global_ops = {op.results[0]: op for op in block.ops if op.name == TO_GLOBAL}
        for value, result in zip(block.end.operands, computation.results, strict=True):
            if value in self.target_of:
                with located(to_global_ops[value].handle):
                    sharding = self._produced_sharding(to_global_ops[value])
                self.target_of[value] = self.target_of[result] = sharding

    def _produced_sharding(self, op: Op) -> Sharding:
        boundary = self._boundary(op)
        inside = boundary.inside(self.target_of[op.results[0]])
        return boundary.outside(boundary.fitting(inside, self.resharded.shape(op.operands[0])))

    def _boundary(self, op: Op) -> ManualBoundary:
        boundary = boundary_of(op.handle, self.shardings)
        return boundary.refined(self.refinement_of(boundary.grid))

    def go_in(self, op: Op) -> Sharding | None:
        """Reshard the operand of a `to_local`.

        Returns the sharding of its result, or `None` if that is not a tensor.
        """
        boundary, (value,), (result,) = self._boundary(op), op.operands, op.results
        if result not in self.target_of:
            write_boundary(op.handle, boundary, boundary.annotation.sharding, self.shardings)
            return None
        inside = boundary.fitting(self.target_of[result], self.resharded.shape(result))
        outside = boundary.outside(inside)
        op.handle.operands[0] = self.resharded.get(value, outside, op)
        write_boundary(op.handle, boundary, outside, self.shardings)
        return inside

    def come_out(self, op: Op) -> Sharding | None:
        """Reshard the operand of a `to_global`.

        Returns the sharding of its result, or `None` if that is not a tensor.
        """
        boundary, (value,), (result,) = self._boundary(op), op.operands, op.results
        if result not in self.target_of:
            write_boundary(op.handle, boundary, boundary.annotation.sharding, self.shardings)
            return None
        outside = self._produced_sharding(op)
        op.handle.operands[0] = self.resharded.get(value, boundary.inside(outside), op)
        write_boundary(op.handle, boundary, outside, self.shardings)
        return outside
