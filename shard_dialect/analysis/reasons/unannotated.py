"""Why the passes split what no annotation asks to split.

reduce_scatter 1x           half of what an all_reduce sends, whose result is twice as large
reduce_scatter, all_gather  what an all_reduce sends, but the ops between compute on shards
"""

from __future__ import annotations

from shard_dialect.analysis.reasons.function_values import FunctionValues
from shard_dialect.ir.mesh.attributes import STAGES
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES
from shard_dialect.ir.numbered_function import Op
from shard_dialect.model import AllGather, Axes, ReduceScatter
from shard_dialect.model.axis import overlap

CHEAPEST = "it is the cheapest way to compute the op: by bytes, then by work"
_FARTHEST = 200
"""The ops that are visited in search of the gather."""


class Unannotated:
    """A split along `axes` of `grid` of what reads `source`."""

    def __init__(self, values: FunctionValues, source: int, grid: str, axes: Axes) -> None:
        self.values = values
        self.source = source
        self.grid = grid
        self.axes = axes

    def why(self, reader: Op) -> str:
        """The reason, for the op that reads the source, as the end of a sentence."""
        sharding = self.values.sharding(self.source)
        if sharding is None or not any(
            overlap(axis, each) for axis in self.axes for each in sharding.partial
        ):
            return CHEAPEST
        gather = self._gathered(reader)
        if gather is None and not self._is_scattered():
            return CHEAPEST
        if gather is None:
            return "it moves half the bytes that an all_reduce would"
        return (
            f"with the gather that '{gather.name}' op needs it moves as many bytes as an "
            "all_reduce, and what is between computes on shards"
        )

    def _gathered(self, reader: Op) -> Op | None:
        """The reader of a later gather along the axes, on a way on which all stays split."""
        waiting, seen = [reader], {id(reader)}
        while waiting and len(seen) < _FARTHEST:
            for value in waiting.pop(0).results:
                for op in self.values.readers.get(value, ()):
                    if id(op) in seen:
                        continue
                    seen.add(id(op))
                    if op.name in COLLECTIVES and self._gathers(op):
                        return next(self.values.read_by(op.results[0]), op)
                    waiting.append(op)
        return None

    def _is_scattered(self) -> bool:
        return any(
            isinstance(step, ReduceScatter)
            for op in self.values.readers.get(self.source, ())
            if op.name in COLLECTIVES and STAGES not in op.handle.attributes
            for step in read_collective(op.handle).steps
        )

    def _gathers(self, op: Op) -> bool:
        if STAGES in op.handle.attributes:  # what it moves follows from its stages
            return False
        return any(
            isinstance(step, AllGather) and any(axis in step.axes for axis in self.axes)
            for step in read_collective(op.handle).steps
        )
