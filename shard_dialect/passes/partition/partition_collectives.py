"""Translate `mesh` collectives of the distributed form to `shard` collectives of the local form.

Uneven shards, and shards that begin at offsets, are padded. So a tensor is padded before it is
split, and the padding is removed after shards are joined.

`ShardsOfOps` describes one device's shard of each tensor of an op, as the partition rules take it.

`write_transfer` writes the messages of a transfer between stages, by the rounds of its plan.

    to 0: 2 rows of device 2, to 1: 2 rows of device 3; 2 and 3 keep 2 rows each
      becomes, on all devices
    %r = scf.if %is_of_second { insert what it keeps into zeros } else { zeros }
    %s = tensor.extract_slice %x[0, 0] [2, 4] [1, 1]
    %m = "mesh.collective_permute"(%s) {cluster = @g, mesh_axis = [0], permutation = [-1, 0]}
    %q = scf.if %is_of_first { %m } else { %r }

Devices that take no part in a round send elements that nobody reads, and keep their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from shard_dialect.collectives import (
    NOBODY,
    AllGather,
    AllReduce,
    AllSlice,
    CropHalo,
    Exchange,
    Permute,
    Step,
    UpdateHalo,
)
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build import drop_unused, replace_op
from shard_dialect.ir.building.loops_and_masks import (
    as_index,
    extract_box,
    insert_box,
    keep_box,
)
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.mesh.mesh_collectives import Collective, read_collective
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.local_collectives import write_local
from shard_dialect.model import Axes, Grid, Sharding, ShardingRule
from shard_dialect.model.grid import full_axis
from shard_dialect.model.sharding import Shape
from shard_dialect.model.transfer_plan import Message, Round, TransferPlan
from shard_dialect.ops import PartitionedOp, Shard
from shard_dialect.ops.partitioned_op import device_indices
from shard_dialect.planner import bytes_moved, nests, plan


@dataclass(frozen=True, slots=True)
class ShardsOfOps:
    """The shards of the operands and results of ops, by their types."""

    shardings: Shardings
    _shards: dict[ir.Type, Shard | None] = field(default_factory=dict)

    def partitioned_op(self, op: ir.Operation, rule: ShardingRule) -> PartitionedOp:
        """The op with its rule and the shards of its operands and results."""
        operands = tuple([self._shard(value.type) for value in op.operands])
        results = tuple([self._shard(value.type) for value in op.results])
        return PartitionedOp(op, rule, operands, results)

    def _shard(self, type_: ir.Type) -> Shard | None:
        if type_ not in self._shards:
            self._shards[type_] = _shard(type_, self.shardings)
        return self._shards[type_]


def _shard(type_: ir.Type, shardings: Shardings) -> Shard | None:
    if not isinstance(type_, ir.RankedTensorType):
        return None
    global_shape, shape = tuple(type_.shape), tuple(shardings.local(type_).shape)
    sharding = shardings.of_type(type_)
    if sharding is None:
        rank = len(global_shape)
        return Shard(global_shape, shape, _same_on_all, ((0, 0),) * rank, (1,) * rank)
    return _shard_of(global_shape, shape, sharding, shardings.grid(sharding.grid))


def _shard_of(global_shape: Shape, shape: Shape, sharding: Sharding, grid: Grid) -> Shard:
    split = sharding.split_axes

    def own(dim: int, numbers: Sequence[int]) -> ir.Value:
        return own_number(numbers, split[dim], grid.name)

    def permuted(dim: int, to: Sequence[int], value: ir.Value) -> ir.Value:
        return write_local(Permute(split[dim], tuple(to)), grid.name, value, value.type)

    halos = tuple(map(sharding.halo, range(len(global_shape))))
    offsets = tuple(
        sharding.bounds(dim, global_shape[dim], grid) if at else ()
        for dim, at in enumerate(sharding.offsets)
    )
    devices = tuple(map(grid.axes_size, split))
    return Shard(global_shape, shape, own, halos, devices, offsets, sharding.fill, permuted)


def _same_on_all(dim: int, numbers: Sequence[int]) -> ir.Value:
    return own_number(numbers, (), "")


def own_number(numbers: Sequence[int], axes: Axes, grid: str, width: int = 64) -> ir.Value:
    """Of `numbers`, one per device along `axes`, this device's, as a tensor of one integer."""
    listed = build.scalar(build.dense(numbers, build.integer(width)))
    if len(numbers) == 1:
        return listed
    return write_local(AllSlice(0, axes), grid, listed, build.resized(listed.type, [1]))


def exact_steps(op: ir.Operation, shardings: Shardings) -> Collective:
    """The steps of a `mesh` op, or others where its own do not give the shards of its result.

    Splitting uneven shards further does not, if these do not nest: 3, 2 elements become 2, 1 | 1, 1
    and not 2, 2 | 1, 0. An op that is several steps, such as a gather along a major axis, is the
    cheapest steps between its shardings.
    """
    collective = read_collective(op)
    if not collective.source.grid:  # every device has all of the tensor before, and after
        return replace(collective, steps=())
    if not op.results[0].type.has_static_shape:
        return collective
    source, steps = collective.source, collective.steps
    shape, grid = tuple(op.results[0].type.shape), shardings.grid(source.grid)
    ends = (source, collective.target)
    is_plain = not any(each.halos or each.offsets for each in ends)
    if len(steps) > 1 and is_plain and collective.target.grid == source.grid:
        best = plan(source, collective.target, shape, 1, grid, sub_axes=False)
        if best.bytes_moved < bytes_moved(steps, source, shape, 1, grid):
            return replace(collective, steps=best.steps)
    now = source
    for step in steps:
        before, now = now, step.after(now)
        may_stay = isinstance(step, Exchange) or before.grid != now.grid
        if not (may_stay or nests(before, now, shape, grid)):
            # Costs are compared with one another, so the size of elements does not matter.
            best = plan(source, collective.target, shape, 1, grid, sub_axes=False)
            return replace(collective, steps=best.steps)
    return collective


def partition_collective(op: ir.Operation, collective: Collective, shardings: Shardings) -> None:
    """Replace a `mesh` op, read before its operand was partitioned, by its steps' `shard` ops."""
    now = collective.source
    global_type, value = op.results[0].type, op.operands[0]
    with ir.InsertionPoint(op), op.location:
        for step in collective.steps:
            before, now = now, step.after(now)
            grid = shardings.grid(before.grid)
            type_ = shardings.local(shardings.typed(global_type, now))
            may_be_splat = isinstance(step, AllSlice) and not any(step.halo)
            splat = _splat_constant(value) if may_be_splat else None
            if splat is not None:
                value = build.constant_like(value, type_)
                continue
            if isinstance(step, UpdateHalo):
                content = reductions.identity_value(step.fill, type_.element_type)
                value = build.embedded(value, type_, step.dim, step.low, content)
            elif isinstance(step, CropHalo):
                begin = before.halo(step.dim)[0] - step.low
                value = build.extract_slice(value, begin, type_.shape[step.dim], step.dim)
            stays = isinstance(step, Permute) and list(step.permutation) == sorted(step.permutation)
            has_halo = isinstance(step, AllSlice) and any(step.halo)
            if (grid.axes_size(step.axes) > 1 and not stays) or has_halo:
                with located(op):
                    value = _written(step, before, grid, value, global_type, type_)
    source = op.operands[0].owner
    replace_op(op, value)
    if not isinstance(source, ir.Block) and _splat_constant(source.results[0]) is not None:
        drop_unused([source.operation])


def _written(
    step: Step,
    before: Sharding,
    grid: Grid,
    value: ir.Value,
    global_type: ir.RankedTensorType,
    type_: ir.RankedTensorType,
) -> ir.Value:
    """Write the op of a step, from a tensor sharded as `before` to the local `type_`."""
    if isinstance(step, AllSlice) and step.offsets:
        return _sliced_at_offsets(step, grid, value, type_)
    if isinstance(step, AllSlice) and any(step.halo):
        return _sliced_with_halo(step, grid, value, type_)
    if isinstance(step, Exchange):
        return write_transfer(step.plan, value, type_, grid.name)
    if isinstance(step, AllGather) and _few_have_a_part(step, before, grid, value, type_):
        return _added_up(step, grid, value, type_)
    count = grid.axes_size(step.axes)
    local_shape = list(type_.shape)
    if step.cut_dim is not None:
        value = _padded(value, step.cut_dim, local_shape[step.cut_dim] * count)
    if step.joined_dim is not None:
        local_shape[step.joined_dim] = value.type.shape[step.joined_dim] * count
    written = write_local(step, grid.name, value, build.resized(type_, local_shape))
    if isinstance(step, AllGather) and before.offsets and before.offsets[step.dim]:
        bounds = before.bounds(step.dim, global_type.shape[step.dim], grid)
        return _closed_up(written, step.dim, bounds, type_)
    for dim, size in enumerate(type_.shape):
        if size != local_shape[dim]:
            written = build.extract_slice(written, 0, size, dim)
    return written


def _few_have_a_part(
    step: AllGather, before: Sharding, grid: Grid, value: ir.Value, type_: ir.RankedTensorType
) -> bool:
    """Whether an all-gather would move more padding than an all-reduce moves of the whole.

    Of 3 elements on 8 devices, 5 devices have padding: a gather moves 7 shards to each device, and
    an all-reduce twice 7 / 8 of the 3 elements.
    """
    is_plain = before.split_axes[step.dim] == step.axes and not before.offsets and not before.halos
    may_add = str(type_.element_type) != "i1"
    count = grid.axes_size(step.axes)
    added = AllReduce(step.axes).bytes_moved(count, tuple(type_.shape), 1)
    gathered = step.bytes_moved(count, tuple(value.type.shape), 1)
    return is_plain and may_add and added < gathered


def _added_up(step: AllGather, grid: Grid, value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """The sum of what each device has, in its place, beside the identity of sums."""
    count, room = grid.axes_size(step.axes), value.type.shape[step.dim]
    shape = [count * room if dim == step.dim else size for dim, size in enumerate(type_.shape)]
    begin = as_index(own_number([room * device for device in range(count)], step.axes, grid.name))
    whole = reductions.identity_tensor("sum", build.resized(type_, shape))
    places = [begin if dim == step.dim else 0 for dim in range(len(shape))]
    part = build.extract_slice(insert_box(whole, value, places), 0, type_.shape[step.dim], step.dim)
    return write_local(AllReduce(step.axes), grid.name, part, type_)


def _sliced_at_offsets(
    step: AllSlice, grid: Grid, value: ir.Value, type_: ir.RankedTensorType
) -> ir.Value:
    """Slice at this device's offset, with the size of the largest shard."""
    size = type_.shape[step.dim]
    begins = [offset or 0 for offset in step.offsets[:-1]]
    value = _padded(value, step.dim, value.type.shape[step.dim] + size)
    begin = as_index(own_number(begins, step.axes, grid.name))
    return build.extract_slice(value, begin, size, step.dim)


def _sliced_with_halo(
    step: AllSlice, grid: Grid, value: ir.Value, type_: ir.RankedTensorType
) -> ir.Value:
    """Slice at this device's offset, from the tensor with the fill around it."""
    low, high = step.halo
    count, size = grid.axes_size(step.axes), type_.shape[step.dim] - low - high
    shape = list(value.type.shape)
    shape[step.dim] = low + count * size + high
    content = reductions.identity_value(step.fill, type_.element_type)
    value = build.embedded(value, build.resized(type_, shape), step.dim, low, content)
    begins = [size * device for device in device_indices(count)]
    begin = as_index(own_number(begins, step.axes, grid.name))
    return build.extract_slice(value, begin, type_.shape[step.dim], step.dim)


def _closed_up(
    gathered: ir.Value, dim: int, bounds: Sequence[int], type_: ir.RankedTensorType
) -> ir.Value:
    """Remove the padding between gathered shards, which follow one another."""
    value = build.empty(type_)
    room = gathered.type.shape[dim] // (len(bounds) - 1)
    for device, (begin, end) in enumerate(pairwise(bounds)):
        if end > begin:
            shard = build.extract_slice(gathered, device * room, end - begin, dim)
            value = build.insert_slice_at(value, shard, dim, begin)
    return value


def _padded(value: ir.Value, dim: int, size: int) -> ir.Value:
    """Pad a dimension at its end to this size."""
    shape = list(value.type.shape)
    if shape[dim] == size:
        return value
    shape[dim] = size
    into = build.resized(value.type, shape)
    return build.embedded(value, into, dim, 0, reductions.identity_value("sum", into.element_type))


def _splat_constant(value: ir.Value) -> ir.Attribute | None:
    attribute = build.constant_value(value)
    return attribute if attribute is not None and build.is_splat(attribute) else None


def write_transfer(
    plan: TransferPlan,
    value: ir.Value,
    type_: ir.RankedTensorType,
    grid: str,
    into: ir.Value | None = None,
) -> ir.Value:
    """Write the rounds of `plan` on the shard `value`; returns the new shard, of `type_`.

    Elements that a device does not get come from its shard `into`; without one, they are zeros.
    """
    return _Writer(value, type_, plan, grid).write(into)


def _with_room(
    value: ir.Value, rounds: Sequence[Round], begin_of: Callable[[Message], tuple[int, ...]]
) -> ir.Value:
    """The value, padded so that the box of each round fits in where a message begins."""
    for dim, size in enumerate(value.type.shape):
        ends = [begin_of(each)[dim] + r.shape[dim] for r in rounds for each in r.messages]
        value = _padded(value, dim, max([size, *ends]))
    return value


@dataclass
class _Writer:
    """Writes one transfer of `value` among groups of devices of `grid`."""

    value: ir.Value
    type_: ir.RankedTensorType
    plan: TransferPlan
    grid: str
    listed: dict[tuple[Axes, tuple[int, ...]], ir.Value] = field(default_factory=dict)
    """The numbers of this device that were written already."""

    def write(self, into: ir.Value | None) -> ir.Value:
        """Write the rounds after one another; those in which nothing moves come first."""
        shape = tuple(self.type_.shape)
        is_whole = [
            each.shape == shape and not (each.stays or each.ragged_dims)
            for each in self.plan.rounds
        ]
        if is_whole == [True] and into is None:
            return self._sent(self.plan.rounds[0])  # a device without a sender has zeros already
        # A round's box may be larger than a device's own, and end behind its shard.
        self.value = _with_room(self.value, self.plan.rounds, lambda message: message.taken_at)
        shard = reductions.identity_tensor("sum", self.type_) if into is None else into
        shard = _with_room(shard, self.plan.rounds, lambda message: message.put_at)
        for number, each in enumerate(self.plan.rounds):
            shard = self._put(each, shard, is_first=number == 0 and into is None)
        return extract_box(shard, [0] * len(shape), shape)

    def _put(self, round_: Round, shard: ir.Value, *, is_first: bool) -> ir.Value:
        """The shard, with the box that this device receives in a round, or keeps, put into it.

        What is more than its own box may stay in the first round: what comes later hides it.
        """
        axes = round_.varying_axes(self.plan.members)
        receivers = {each.receiver: each for each in round_.messages}

        offsets = self._offsets(receivers, axes, lambda message: message.put_at)
        # What is read in the branch below comes before it, for other rounds may read it, too.
        taken_at = self._taken_at(round_)
        box = None if round_.stays else self._sent(round_)

        def inserted() -> ir.Value:
            own = extract_box(self.value, taken_at, round_.shape) if box is None else box
            if round_.ragged_dims and not is_first:
                before = extract_box(shard, offsets, round_.shape)
                own = keep_box(own, before, self._sizes(receivers, axes, round_.ragged_dims))
            return insert_box(shard, own, offsets)

        if len(receivers) == self.plan.members.size or round_.ragged_dims:
            return inserted()
        takes_part = self._own(dict.fromkeys(receivers, 1), axes)
        is_receiver = build.compare("eq", takes_part, build.index(1))
        branch = build.create("scf.if", [shard.type], [is_receiver], regions=2)
        own, others = (region.blocks.append() for region in branch.regions)
        with ir.InsertionPoint(own):
            build.create("scf.yield", [], [inserted()])
        with ir.InsertionPoint(others):
            build.create("scf.yield", [], [shard])
        return branch.results[0]

    def _sizes(
        self, receivers: Mapping[int, Message], axes: Axes, dims: Sequence[int]
    ) -> dict[int, ir.Value]:
        """The sizes of this device's own box in these dimensions; 0 if it gets none."""
        by_rank = {dim: {rank: each.shape[dim] for rank, each in receivers.items()} for dim in dims}
        return {dim: self._own(sizes, axes) for dim, sizes in by_rank.items()}

    def _sent(self, round_: Round) -> ir.Value:
        """The box that arrives at each device."""
        axes = round_.varying_axes(self.plan.members)
        permutation = [NOBODY] * self.plan.members.axes_size(axes)
        for each in round_.messages:
            to = self.plan.members.index_along(each.receiver, axes)
            permutation[self.plan.members.index_along(each.sender, axes)] = to
        box = extract_box(self.value, self._taken_at(round_), round_.shape)
        step = Permute(self._along(axes), tuple(permutation))
        return write_local(step, self.grid, box, box.type)

    def _along(self, axes: Axes) -> Axes:
        """The axes of the grid of all devices."""
        return tuple(self.plan.axes[full_axis(axis)] for axis in axes)

    def _taken_at(self, round_: Round) -> list[int | ir.Value]:
        """Where the box that a device sends, or keeps, is in its shard."""
        senders = {each.sender: each for each in round_.messages}
        axes = round_.varying_axes(self.plan.members)
        return self._offsets(senders, axes, lambda message: message.taken_at)

    def _offsets(
        self,
        messages: Mapping[int, Message],
        axes: Axes,
        offset: Callable[[Message], tuple[int, ...]],
    ) -> list[int | ir.Value]:
        """This device's offset in each dimension, by the message that each device takes part in."""
        offsets: list[int | ir.Value] = []
        for dim in range(self.type_.rank):
            of = {rank: offset(each)[dim] for rank, each in messages.items()}
            # A device without a message may use any offset, which is within its shard.
            same = len(set(of.values())) == 1
            offsets.append(next(iter(of.values())) if same else self._own(of, axes))
        return offsets

    def _own(self, numbers: Mapping[int, int], axes: Axes) -> ir.Value:
        """Of numbers by rank, this device's; 0 of a device without one."""
        by_position = [0] * self.plan.members.axes_size(axes)
        for rank, number in numbers.items():
            by_position[self.plan.members.index_along(rank, axes)] = number
        key = axes, tuple(by_position)
        if key not in self.listed:
            number = own_number(by_position, self._along(axes), self.grid)
            self.listed[key] = as_index(number)
        return self.listed[key]
