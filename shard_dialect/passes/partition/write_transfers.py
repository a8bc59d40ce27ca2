"""Write what a transfer between stages moves, by the rounds of its plan.

    to 0: 2 rows of device 2, to 1: 2 rows of device 3; 2 and 3 keep 2 rows each
      becomes, on all devices
    %r = scf.if %is_of_second { insert what it keeps into zeros } else { zeros }
    %s = tensor.extract_slice %x[0, 0] [2, 4] [1, 1]
    %m = "mesh.collective_permute"(%s) {cluster = @g, mesh_axis = [0], permutation = [-1, 0]}
    %q = scf.if %is_of_first { %m } else { %r }

Devices that take no part in a round send what nobody reads, and keep what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.boxes import extract_box, insert_box
from shard_dialect.ir.building.masking import as_index
from shard_dialect.ir.shard.local_collectives import write_local
from shard_dialect.model import Axes, Grid, Permute
from shard_dialect.model.collectives import NOBODY
from shard_dialect.passes.partition.op_shards import own_number
from shard_dialect.planner.transfer_plan import Message, Round, TransferPlan


def write_transfer(
    plan: TransferPlan,
    value: ir.Value,
    type_: ir.RankedTensorType,
    grid: Grid,
    into: ir.Value | None = None,
) -> ir.Value:
    """Write the rounds of `plan` on the shard `value`; returns the new shard, of `type_`.

    What a device does not get, it has from the shard `into`; without one, it has zeros.
    """
    return _Writer(value, type_, grid).write(plan, into)


@dataclass
class _Writer:
    """Writes one transfer of `value`, on all devices of `grid`."""

    value: ir.Value
    type_: ir.RankedTensorType
    grid: Grid
    listed: dict[tuple[Axes, tuple[int, ...]], ir.Value] = field(default_factory=dict)
    """The numbers of this device that were written already."""

    def write(self, plan: TransferPlan, into: ir.Value | None) -> ir.Value:
        """Write the rounds after one another; those in which nothing moves come first."""
        shape = tuple(self.type_.shape)
        is_whole = [each.shape == shape and not each.stays for each in plan.rounds] == [True]
        if is_whole and into is None:
            return self._sent(plan.rounds[0])  # who gets nothing has zeros already
        shard = reductions.identity_tensor("sum", self.type_) if into is None else into
        for each in plan.rounds:
            shard = self._put(each, shard)
        return shard

    def _put(self, round_: Round, shard: ir.Value) -> ir.Value:
        """The shard with what this device receives in a round, or keeps."""
        axes = round_.varying_axes(self.grid)
        receivers = {each.receiver: each for each in round_.messages}

        offsets = self._offsets(receivers, axes, lambda message: message.put_at)
        # What is read in the branch below comes before it, for other rounds may read it, too.
        taken_at = self._taken_at(round_)
        box = None if round_.stays else self._sent(round_)

        def inserted() -> ir.Value:
            own = extract_box(self.value, taken_at, round_.shape) if box is None else box
            return insert_box(shard, own, offsets)

        if len(receivers) == self.grid.size:
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

    def _sent(self, round_: Round) -> ir.Value:
        """What arrives at each device."""
        axes = round_.varying_axes(self.grid)
        permutation = [NOBODY] * self.grid.axes_size(axes)
        for each in round_.messages:
            to = self.grid.index_along(each.receiver, axes)
            permutation[self.grid.index_along(each.sender, axes)] = to
        box = extract_box(self.value, self._taken_at(round_), round_.shape)
        return write_local(Permute(axes, tuple(permutation)), self.grid.name, box, box.type)

    def _taken_at(self, round_: Round) -> list[int | ir.Value]:
        """Where the box that a device sends, or keeps, is in its shard."""
        senders = {each.sender: each for each in round_.messages}
        axes = round_.varying_axes(self.grid)
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
        by_position = [0] * self.grid.axes_size(axes)
        for rank, number in numbers.items():
            by_position[self.grid.index_along(rank, axes)] = number
        key = axes, tuple(by_position)
        if key not in self.listed:
            self.listed[key] = as_index(own_number(by_position, axes, self.grid.name))
        return self.listed[key]
