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
branch, and collectives of all devices are outside of branches, in the same order on all of them. A
device of two stages takes their branches in that order, too. The ops of a stage move as far to the
front as possible, so that there is one branch per stage between two transfers. Loops and branches
with several stages inside are run by all devices, and their blocks are branched by stage.

A transfer moves to each device what it lacks of its shard (`model.transfer_plan`). So it becomes
one permutation or several, of slices, outside of branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from shard_dialect.collectives import NOBODY, flat_index
from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.building.loops_and_masks import as_index
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import BOUNDARY, boundary, returns_of, set_boundary
from shard_dialect.ir.mesh.attributes import (
    ARGUMENT,
    RESULT,
    STAGE,
    STAGES,
    i64_array,
    ints,
    symbol,
)
from shard_dialect.ir.mesh.sharding_attributes import (
    Shardings,
    check_stage,
    part_offsets,
    stages_at,
    stages_named,
)
from shard_dialect.ir.numbered_function import Block, Op, read_function
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Axes, Grid, ShardingError, SubCluster
from shard_dialect.model.grid import full_axis
from shard_dialect.model.sub_cluster import Place
from shard_dialect.model.transfer_plan import End, Transfer, plan_transfer
from shard_dialect.ops.partitioned_op import device_indices
from shard_dialect.passes.partition.partition_collectives import own_number, write_transfer
from shard_dialect.passes.partition.shared_loop_values import SHARING, share_carried, updated
from shard_dialect.passes.stages.assign_stages import Stages


def branch_by_stage(
    function: ir.Operation, sub_clusters: Mapping[str, SubCluster], shardings: Shardings
) -> None:
    """Branch by stage if a function has stages; raise a located `ShardError` if it fails."""
    with located(function):
        arguments, results = (stages_at(function, key) for key in BOUNDARY)
        named = {name for name in (*arguments, *results) if name is not None}
        fine = ""
        for op in walk(function):
            with located(op):
                transfer = stages_named(op)
            if transfer is not None:
                named.update(transfer)
                fine = symbol(op.attributes["cluster"])
        for name in named:
            check_stage(name, function.parent, or_grid=True)
        stages = [sub_clusters[name] for name in sorted(named & sub_clusters.keys())]
        if named:
            whole = shardings.grid(stages[0].of if stages else min(named))
            grid = shardings.grid(fine) if fine else _finest(stages, whole, shardings)
            places = {each.name: each.place(whole, grid) for each in stages}
            places[whole.name] = Place(grid)
            others = sorted(name for name in named if name not in places)
            if others or any(stage.of != whole.name for stage in stages):
                raise ShardingError(f"has stages of {whole} and others: {', '.join(sorted(named))}")
            of = Stages.settled(read_function(function), whole.name)
            _Branches(function, shardings, grid, places, of).write()


def _finest(stages: Sequence[SubCluster], whole: Grid, shardings: Shardings) -> Grid:
    """A grid of the module on which the stages, without transfers, have fixed axes."""
    for grid in (whole, *shardings.grids.values()):
        same_devices = grid.is_static and grid.size == whole.size
        if same_devices and all(stage.place(whole, grid).fixed is not None for stage in stages):
            return grid
    return whole


@dataclass
class _Segment:
    """Consecutive ops of one stage, or of all devices."""

    stage: str
    ops: list[Op] = field(default_factory=list)


@dataclass(frozen=True)
class _Sent:
    """A permutation by which a stage passes its shards on as they are."""

    op: ir.Operation
    stage: str

    @property
    def receivers(self) -> Sequence[int]:
        """By member of the group, whom it sends to."""
        return ints(self.op.attributes["permutation"])


@dataclass
class _Branches:
    """Branches one function; `places` tells where each stage is, and all devices are."""

    function: ir.Operation
    shardings: Shardings
    grid: Grid
    places: Mapping[str, Place]
    of: Stages
    own: dict[Place | Axes, ir.Value] = field(default_factory=dict)
    """The index of this device along the axes of stages that have one index along each; whether it
    is of a stage that has several, as 1 or 0."""

    def write(self) -> None:
        self._note_boundary()
        with ir.InsertionPoint.at_block_begin(body(self.function)), self.function.location:
            fixed = {place.axes for place in self.places.values() if place.fixed}
            for axes in sorted(fixed):
                indices = device_indices(self.grid.axes_size(axes))
                self.own[axes] = as_index(own_number(indices, axes, self.grid.name))
            for place in dict.fromkeys(self.places.values()):
                if place.fixed is None:
                    sizes = map(range, self.grid.sizes_along(place.axes))
                    flags = [int(index in place.indices) for index in product(*sizes)]
                    self.own[place] = as_index(own_number(flags, place.axes, self.grid.name))
        self._write_block(self.of.function.blocks[0])

    def _write_block(self, block: Block) -> None:
        end = block.end.handle
        together: list[_Sent] = []
        moved: list[ir.Operation] = []  # of all devices, to the front
        for segment in self._segments(block):
            # Transfers are sent together up to an op that may read what they bring, as any branch
            # may, and as a transfer does that passes it on.
            made = {each.op.results[0] for each in together}
            if not all(
                _is_transfer(op.handle) and made.isdisjoint(op.handle.operands)
                for op in segment.ops
            ):
                self._send_together(together)
                together = []
            if self.places[segment.stage].axes:
                self._branch(segment, block)
                continue
            for op in segment.ops:
                op.handle.move_before(end)
                if _is_transfer(op.handle):
                    together += self._move(op.handle)
                elif id(op) in self.of.open_ops:
                    for inner in op.blocks:
                        self._write_block(inner)
                    if op.name in SHARING:
                        share_carried(op.handle, self._groups(op), self._is_of)
                elif "has_side_effect" not in op.handle.attributes:  # effects keep their order
                    moved.append(op.handle)
        self._send_together(together)
        _sink(moved, block.handle)

    def _groups(self, loop: Op) -> list[list[tuple[int, Place]]]:
        """The results of a loop that stages with other devices have, of one type each."""
        groups: dict[tuple[ir.Type, Axes], list[list[tuple[int, Place]]]] = {}
        for number, value in enumerate(loop.results):
            place = self.places[self.of.of_value(value) or self.of.everyone]
            type_ = loop.handle.results[number].type
            if not place.fixed or not place.axes or not isinstance(type_, ir.RankedTensorType):
                continue
            alike = groups.setdefault((type_, place.axes), [])
            group = next((g for g in alike if place not in [other for _, other in g]), None)
            if group is None:
                alike.append(group := [])
            group.append((number, place))
        return [group for alike in groups.values() for group in alike if len(group) > 1]

    def _send_together(self, transfers: Sequence[_Sent]) -> None:
        """Make one permutation of several transfers that do not wait for each other.

        Each device gives what its own stage sends.
        """
        groups: list[list[_Sent]] = []
        for transfer in transfers:
            group = next((each for each in groups if _fits(transfer, each)), None)
            if group is None:
                groups.append([transfer])
            else:
                group.append(transfer)
        for group in groups:
            if len(group) > 1:
                self._join(group)

    def _join(self, sent: Sequence[_Sent]) -> None:
        first, last = sent[0].op, sent[-1].op
        with ir.InsertionPoint(last), last.location:
            value = first.operands[0]
            for each in sent[1:]:
                is_here = self._is_of(self.places[each.stage])
                value = build.select(is_here, each.op.operands[0], value)
            # A device sends in one transfer at most; in the others it sends to `NOBODY`, -1.
            lists = zip(*(each.receivers for each in sent), strict=True)
            attributes = dict(first.attributes.items())
            attributes["permutation"] = i64_array(list(map(max, lists)))
            joined = build.create(first.name, [value.type], [value], attributes)
        for each in sent:
            replace_op(each.op, joined.results[0])

    def _move(self, transfer: ir.Operation) -> list[_Sent]:
        """Replace a transfer by what it moves between the shards of its two shardings.

        Returns the one permutation of shards as they are that it may have become.
        """
        with ir.InsertionPoint(transfer), located(transfer), transfer.location:
            types = [transfer.attributes[key].value for key in (ARGUMENT, RESULT)]
            stage = (stages_named(transfer) or ("",))[0]
            source, target = self._ends(transfer, types)
            if source.sharding.partial or target.sharding.partial:
                partial = [end.sharding for end in (source, target) if end.sharding.partial]
                raise ShardingError(f"passes on a tensor sharded as {partial[0]}, a partial one")
            sizes = (tuple(each.shape) for each in types)
            plan = plan_transfer(Transfer.between(source, target, *sizes))
            value, *into = transfer.operands
            type_ = transfer.results[0].type
            moved = write_transfer(plan, value, type_, self.grid.name, *into)
        replace_op(transfer, moved)
        is_whole = not into and value != moved and moved.owner.operands[0] == value
        is_sent = is_whole and "permutation" in moved.owner.attributes
        return [_Sent(moved.owner, stage)] if is_sent else []

    def _ends(self, transfer: ir.Operation, types: Sequence[ir.RankedTensorType]) -> list[End]:
        """The source and the target of a transfer, of these global types."""
        named, offsets = stages_named(transfer) or (), part_offsets(transfer)
        return [self._end(*each) for each in zip(named, types, offsets, strict=True)]

    def _end(self, stage: str, type_: ir.RankedTensorType, offsets: tuple[int, ...]) -> End:
        """The source or target of a transfer; raises for a sharding that its stage cannot have."""
        sharding, place = self.shardings.sharding_of(type_, self.grid), self.places[stage]
        barred = [axis for axis in sharding.axes if full_axis(axis) in place.axes]
        if barred or sharding.halos:
            why = (
                f"{as_symbol(stage)} has not all of axis {barred[0]}" if barred else "it has halos"
            )
            raise ShardingError(f"passes on a tensor sharded as {sharding}, but {why}")
        return End(sharding, place, offsets)

    def _note_boundary(self) -> None:
        """Record the stage of each argument and result, for whoever runs the program."""
        numbered = self.of.function
        returned = returns_of(self.function)[:1] and numbered.returns[0].operands
        for key, values in zip(BOUNDARY, (numbered.arguments, returned), strict=True):
            entries = boundary(self.function, key)
            for entry, value in zip(entries, values, strict=True):
                stage = self.of.of_value(value)
                if stage is not None and self.places[stage].axes:
                    entry[STAGE] = ir.FlatSymbolRefAttr.get(stage)
            set_boundary(self.function, key, entries)

    def _segments(self, block: Block) -> list[_Segment]:
        """All ops but the terminator, in an order in which each still comes after its operands."""
        everyone = self.of.everyone
        shared, segments = _Segment(everyone), []
        latest: dict[str, _Segment] = {}
        late: set[int] = set()  # made behind the shared ops
        for op in block.ops[:-1]:
            stage, transfer = self.of.of_op(op), stages_named(op.handle)
            is_shared = stage is None and transfer is None and self.of.is_free(op)
            is_open = id(op) in self.of.open_ops
            # An op of no stage may read what a loop of several ends with: its counter, say.
            is_first = is_shared and not is_open and late.isdisjoint(op.read)
            # A constant of a stage needs no branch, whose result would have memory of its own.
            if is_first or build.is_constant(op.handle):
                shared.ops.append(op)
                continue
            late.update(op.results)
            if transfer is not None or is_open or is_shared:
                segments.append(_Segment(everyone, [op]))
                # What a stage does after it may read what it makes: in a new branch, behind it.
                for name in transfer or tuple(latest):
                    latest.pop(name, None)
            else:
                name = stage or everyone
                if name not in latest:
                    latest[name] = _Segment(name)
                    segments.append(latest[name])
                latest[name].ops.append(op)
        return [shared, *segments]

    def _branch(self, segment: _Segment, block: Block) -> None:
        handles = [op.handle for op in segment.ops]
        inside = set(handles)
        captured = [
            (value, uses)
            for op in handles
            for value in op.results
            if (uses := _uses_outside(value, inside, block.handle))
        ]
        with ir.InsertionPoint(block.end.handle), handles[0].location:
            is_own = self._is_of(self.places[segment.stage])
            types = [value.type for value, _ in captured]
            branch = build.create("scf.if", types, [is_own], regions=2)
        for (_, uses), result in zip(captured, branch.results, strict=True):
            for user, operand in uses:
                user.operands[operand] = result
        own, others = (region.blocks.append() for region in branch.regions)
        with branch.location:
            with ir.InsertionPoint(own):
                last = build.create("scf.yield", [], [value for value, _ in captured])
            with ir.InsertionPoint(others):
                build.create("scf.yield", [], [_elsewhere(value, inside) for value, _ in captured])
        for op in handles:
            op.move_before(last)

    def _is_of(self, place: Place) -> ir.Value:
        """Whether this device is of a stage."""
        if place.fixed is None:
            return build.compare("eq", self.own[place], build.index(1))
        (index,) = place.indices
        number = flat_index(index, self.grid.sizes_along(place.axes))
        return build.compare("eq", self.own[place.axes], build.index(number))


def _is_transfer(op: ir.Operation) -> bool:
    return STAGES in op.attributes


def _fits(sent: _Sent, group: Sequence[_Sent]) -> bool:
    """Whether a transfer may be sent with others: of other senders, to others, of one type."""
    value, axes = sent.op.operands[0], sent.op.attributes["mesh_axis"]
    return all(
        each.op.operands[0].type == value.type
        and each.op.attributes["mesh_axis"] == axes
        and all(NOBODY in pair for pair in zip(sent.receivers, each.receivers, strict=True))
        and not set(sent.receivers) & set(each.receivers) - {NOBODY}
        for each in group
    )


def _sink(ops: Sequence[ir.Operation], block: ir.Block) -> None:
    """Move ops to where they are first read, in their order: they need memory from then on.

    %m = multiply %moment, %decay     is made behind the loop over ticks,
    %0 = stablehlo.while ...
    %1 = add %m, %0                   where a training step reads it
    """
    order = {op: number for number, op in enumerate(operations(block))}
    reader: dict[ir.Operation, ir.Operation] = {}  # the first that does not move itself
    for op in reversed(ops):
        users = [_in_block(use.owner, block) for each in op.results for use in each.uses]
        found = [reader.get(user, user) for user in users]
        if found:
            reader[op] = min(found, key=order.__getitem__)
    for op in ops:
        if op in reader:
            op.move_before(reader[op])


def _in_block(op: ir.OpView | ir.Operation, block: ir.Block) -> ir.Operation:
    """The op of the block that is `op`, or in whose regions it is."""
    around = op.operation
    while around.block != block:
        around = around.parent
    return around


def _uses_outside(
    value: ir.Value, inside: set[ir.Operation], block: ir.Block
) -> list[tuple[ir.Operation, int]]:
    values = []
    for use in value.uses:
        user = use.owner.operation
        if _in_block(user, block) not in inside:
            values.append((user, use.operand_number))
    return values


def _elsewhere(value: ir.Value, inside: set[ir.Operation]) -> ir.Value:
    """What the devices of other stages have for a value, which they never read.

    A tensor that the stage updates stays as it is, as then nothing is copied; others are zeros.
    """
    before, type_ = updated(value), value.type
    if before is not None and before.type == type_ and before.owner not in inside:
        return before
    if isinstance(type_, ir.RankedTensorType) and type_.has_static_shape:
        return reductions.identity_tensor("sum", type_)
    if isinstance(type_, ir.ShapedType):
        raise error_at(
            value.owner.location, f"a stage gives a {type_} to others: its size must be known"
        )
    return reductions.identity_value("sum", type_)
