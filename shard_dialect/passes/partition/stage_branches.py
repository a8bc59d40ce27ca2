"""In the local form, put the ops of each stage in a branch that only its own devices take.

    %0 = stablehlo.tanh %x                        an op of @first
    %1 = "mesh.collective_permute"(%0) {...}      from @first to @second
    %2 = stablehlo.tanh %1                        an op of @second
      becomes, with %i the index of this device along the axis of the stages
    %a = arith.cmpi eq, %i, 0
    %0 = scf.if %a { yield stablehlo.tanh %x } else { yield zeros }
    %1 = "mesh.collective_permute"(%0) {...}
    %b = arith.cmpi eq, %i, 1
    %2 = scf.if %b { yield stablehlo.tanh %1 } else { yield zeros }

This cannot deadlock. The collectives of a stage are among its own devices, which all take the same
branch, and collectives of all devices are outside of branches, in the same order on all of them.
The ops of a stage move as far to the front as possible, so that there is one branch per stage
between two permutations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.masking import as_index
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import BOUNDARY, boundary, returns_of, set_boundary
from shard_dialect.ir.mesh.attributes import STAGE, STAGES
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.mesh.stage_attributes import check_stage, stages_at, stages_named
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Grid, SubCluster, stage_axis
from shard_dialect.passes.partition.op_shards import own_number
from shard_dialect.passes.stages.assign_stages import StageAnnotations, Stages
from shard_dialect.rules.partitioned_op import device_indices


def branch_by_stage(
    function: ir.Operation, sub_clusters: Mapping[str, SubCluster], shardings: Shardings
) -> None:
    """Branch by stage if a function has stages; raise a located `ShardError` if it fails."""
    with located(function):
        arguments, results = (stages_at(function, key) for key in BOUNDARY)
        named = {name for name in (*arguments, *results) if name is not None}
        for op in operations(body(function)):
            with located(op):
                named.update(stages_named(op) or ())
        for name in named:
            check_stage(name, function.parent)
        if named:
            stages = [sub_clusters[name] for name in sorted(named)]
            grid = shardings.grid(stages[0].of)
            assignment = Stages(function, StageAnnotations(arguments, results, stages_named))
            _Branches(function, stages, grid, assignment).write()


@dataclass
class _Segment:
    """Consecutive ops of one stage, or of all devices."""

    stage: str | None
    ops: list[ir.Operation] = field(default_factory=list)


@dataclass
class _Branches:
    function: ir.Operation
    stages: Sequence[SubCluster]
    grid: Grid
    of: Stages

    def write(self) -> None:
        self._note_boundary()
        axis = stage_axis(self.stages, self.grid)
        self.index = {stage.name: stage.offsets[axis] for stage in self.stages}
        block = body(self.function)
        self.end = operations(block)[-1]
        segments = self._segments()
        with ir.InsertionPoint.at_block_begin(block), self.function.location:
            count = self.grid.axes_size((axis,))
            self.own = as_index(own_number(device_indices(count), (axis,), self.grid.name))
        for segment in segments:
            if segment.stage is None:
                for op in segment.ops:
                    op.move_before(self.end)
            else:
                self._branch(segment)

    def _note_boundary(self) -> None:
        """Record the stage of each argument and result, for whoever runs the program."""
        block = body(self.function)
        arguments = [self.of.of_argument(at) for at in range(len(block.arguments))]
        results = list(map(self.of.of_value, returns_of(self.function)[0].operands))
        for key, stages in zip(BOUNDARY, (arguments, results), strict=True):
            entries = boundary(self.function, key)
            for entry, stage in zip(entries, stages, strict=True):
                if stage is not None:
                    entry[STAGE] = ir.FlatSymbolRefAttr.get(stage)
            set_boundary(self.function, key, entries)

    def _segments(self) -> list[_Segment]:
        """All ops but the terminator, in an order in which each still comes after its operands."""
        shared, segments = _Segment(None), []
        latest: dict[str, _Segment] = {}
        for op, stage in self.of.of_ops()[:-1]:
            transfer = stages_named(op)
            if transfer is not None:
                del op.attributes[STAGES]
                segments.append(_Segment(None, [op]))
                for name in transfer:
                    latest.pop(name, None)
            elif stage in self.index:
                if stage not in latest:
                    latest[stage] = _Segment(stage)
                    segments.append(latest[stage])
                latest[stage].ops.append(op)
            else:
                shared.ops.append(op)  # depends on no stage
        return [shared, *segments]

    def _branch(self, segment: _Segment) -> None:
        inside = set(segment.ops)
        captured = [
            (value, uses)
            for op in segment.ops
            for value in op.results
            if (uses := _uses_outside(value, inside, body(self.function)))
        ]
        with ir.InsertionPoint(self.end), segment.ops[0].location:
            at = build.index(self.index[segment.stage or ""])
            is_own = build.compare("eq", self.own, at)
            types = [value.type for value, _ in captured]
            branch = build.create("scf.if", types, [is_own], regions=2)
        for (_, uses), result in zip(captured, branch.results, strict=True):
            for user, number in uses:
                user.operands[number] = result
        own, others = (region.blocks.append() for region in branch.regions)
        with branch.location:
            with ir.InsertionPoint(own):
                last = build.create("scf.yield", [], [value for value, _ in captured])
            with ir.InsertionPoint(others):
                build.create("scf.yield", [], [_zeros(value) for value, _ in captured])
        for op in segment.ops:
            op.move_before(last)


def _uses_outside(
    value: ir.Value, inside: set[ir.Operation], block: ir.Block
) -> list[tuple[ir.Operation, int]]:
    values = []
    for use in value.uses:
        around = user = use.owner.operation
        while around.block != block:
            around = around.parent
        if around not in inside:
            values.append((user, use.operand_number))
    return values


def _zeros(value: ir.Value) -> ir.Value:
    """Zeros, which the devices of other stages have for a value."""
    type_ = value.type
    if isinstance(type_, ir.RankedTensorType) and type_.has_static_shape:
        return reductions.identity_tensor("sum", type_)
    if isinstance(type_, ir.ShapedType):
        raise error_at(
            value.owner.location, f"a stage gives a {type_} to others: its size must be known"
        )
    return reductions.identity_value("sum", type_)
