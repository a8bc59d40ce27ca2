"""Collectives of the local form as StableHLO's.

    %1 = shard.all_gather %0 on @g grid_axes = [0] gather_axis = 1
      becomes
    %1 = "stablehlo.all_gather"(%0) {all_gather_dim = 1, replica_groups = dense<[[0, 2], [1, 3]]>}

XLA has no collectives with a root: all devices get the root's operand, or the root's result. It has
no reduction by bits either: all devices gather, and each reduces.

The devices are the replicas, or the partitions, of one XLA program, as `DeviceGroups` tells:

    replicas      stablehlo.replica_id      replica_groups = [[0, 2], [1, 3]]
    partitions    stablehlo.partition_id    the same, with a channel and use_global_device_ids
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from shard_dialect.collectives import LocalStep
from shard_dialect.collectives.collective_table import record_of
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import i64, integer
from shard_dialect.model import Axis, Grid, Reduction

Devices = Literal["replicas", "partitions"]


@dataclass(frozen=True)
class DeviceGroups:
    """The devices of a program, and the channels on which they have communicated so far."""

    devices: Devices
    _channels: count[int] = field(default_factory=lambda: count(1))

    def rank(self) -> ir.Value:
        """This device's rank, an `i64` of rank 0."""
        name = "replica_id" if self.devices == "replicas" else "partition_id"
        bits = hlo.tensor((), ir.IntegerType.get_unsigned(32))
        return hlo.convert(hlo.stablehlo_op(name, bits, []), integer(64))

    def of_rank(self, values: Sequence[int]) -> ir.Value:
        """Of `values`, one for each rank, this device's, an `i64` of rank 0."""
        listed = hlo.constant(hlo.table(values, [len(values)]))
        return hlo.reshape(hlo.dynamic_slice(listed, [self.rank()], [1]), [])

    def position(self, grid: Grid, axes: Sequence[Axis]) -> ir.Value:
        """This device's position in its group along `axes`."""
        return self.of_rank([grid.index_along(rank, axes) for rank in range(grid.size)])

    def attributes(self, grid: Grid, axes: Sequence[Axis]) -> dict[str, ir.Attribute]:
        """The attributes of a collective in the groups along `axes`."""
        groups = grid.groups(axes)
        listed = {"replica_groups": hlo.table(groups, [len(groups), len(groups[0])])}
        return listed | self.channel()

    def channel(self) -> dict[str, ir.Attribute]:
        """The channel, which tells a collective among partitions from one among replicas."""
        if self.devices == "replicas":
            return {}
        number = next(self._channels)
        handle = f"#stablehlo.channel_handle<handle = {number}, type = 1>"
        return {"channel_handle": ir.Attribute.parse(handle)}

    def global_ids(self) -> dict[str, ir.Attribute]:
        """As `channel`, for the kinds of collectives that say it twice."""
        return {} if self.devices == "replicas" else {"use_global_device_ids": ir.UnitAttr.get()}


def collective(
    groups: DeviceGroups,
    step: LocalStep,
    grid: Grid,
    operand: ir.Value,
    type_: ir.RankedTensorType,
    *,
    is_partly_reached: bool,
) -> ir.Value:
    """The result, of type `type_`, of a step on `operand`. Raises `ShardError` for messages."""
    write = record_of(step).stablehlo
    if write is None:
        raise ShardError(
            f"a {step.kind} cannot be written as StableHLO, where all devices run one program: "
            "use shard.shift, or mesh.collective_permute"
        )
    if step.is_computed:
        raise ShardError(
            f"a {step.kind} whose {step.names} the program computes as it runs cannot be written "
            "as StableHLO: use --backend=devices or mpi"
        )
    if 0 in type_.shape:  # StableHLO has no collectives of nothing
        return hlo.number(0, type_)
    code = Code(groups, step, grid, operand, type_, is_partly_reached)
    result: ir.Value = write(code)
    return result


@dataclass(frozen=True)
class Code:
    """A step on `operand` with a result of this type; its methods write what steps consist of."""

    groups: DeviceGroups
    step: Any
    grid: Grid
    operand: ir.Value
    type: ir.RankedTensorType
    is_partly_reached: bool
    """Whether some devices may not reach the step, or not as often as others."""

    @property
    def size(self) -> int:
        """The number of devices in a group."""
        return self.grid.axes_size(self.step.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The same, along each of the group's axes."""
        return self.grid.sizes_along(self.step.axes)

    def _exchanged(
        self, name: str, value: ir.Value, type_: ir.RankedTensorType, **dims: int
    ) -> ir.Value:
        """The result of one of StableHLO's collectives, which is along these dimensions."""
        attributes = {key: i64(dim) for key, dim in dims.items()}
        attributes |= self.groups.attributes(self.grid, self.step.axes)
        if name != "all_to_all":
            attributes |= self.groups.global_ids()
        reduces = name in ("all_reduce", "reduce_scatter")
        result = hlo.stablehlo_op(name, type_, [value], attributes, int(reduces))
        if not reduces:
            return result
        hlo.fill_combiner(result.owner, hlo.COMBINERS[self.step.reduction], type_.element_type)
        if self.step.reduction != "average":
            return result
        return hlo.stablehlo_op("divide", result.type, [result, hlo.number(self.size, result.type)])

    def all_gather(self, dim: int) -> ir.Value:
        """The shards of all devices along `dim`."""
        return self._exchanged("all_gather", self.operand, self.type, all_gather_dim=dim)

    def all_to_all(self, value: ir.Value, type_: ir.Type, joined: int, cut: int) -> ir.Value:
        """Slices along `cut`, one from each device, joined along `joined`."""
        ends = {"split_dimension": cut, "concat_dimension": joined, "split_count": self.size}
        return self._exchanged("all_to_all", value, type_, **ends)

    def all_reduce(self) -> ir.Value:
        """The reduction of the operands of all devices."""
        value = hlo.convert(self.operand, self.type.element_type)
        if self._is_gathered(value):
            return self._gathered_and_reduced(value)
        return self._exchanged("all_reduce", value, self.type)

    def reduce_scatter(self, dim: int) -> ir.Value:
        """This device's shard of it along `dim`."""
        value = hlo.convert(self.operand, self.type.element_type)
        if self._is_gathered(value):
            return self.own_slice(self._gathered_and_reduced(value), dim)
        return self._exchanged("reduce_scatter", value, self.type, scatter_dimension=dim)

    def _is_gathered(self, value: ir.Value) -> bool:
        """Whether XLA has no collective for this reduction: of bits it has "and" and "or"."""
        if not self.step.reduction.startswith("bitwise"):
            return False
        is_bit = str(value.type.element_type) == "i1"
        return not is_bit or hlo.COMBINERS[self.step.reduction] not in ("and", "or")

    def _gathered_and_reduced(self, value: ir.Value) -> ir.Value:
        kind = hlo.COMBINERS[self.step.reduction]
        gathered = self.stacked(value)
        identity = hlo.number(-1 if kind == "and" else 0, hlo.tensor((), value.type.element_type))
        return hlo.reduce(gathered, kind, identity, [0])

    def stacked(self, value: ir.Value) -> ir.Value:
        """The values of all devices in a group along a new first dimension."""
        rows = hlo.reshape(value, [1, *value.type.shape])
        stacked = hlo.tensor([self.size, *value.type.shape], value.type.element_type)
        return self._exchanged("all_gather", rows, stacked, all_gather_dim=0)

    def one_of(self, value: ir.Value, dim: int, position: int) -> ir.Value:
        """The slice of `value` at a position along a dimension, without that dimension."""
        return hlo.index_along(value, dim, position)

    def blocks(self, dim: int) -> ir.Value:
        """The operand with a dimension more: at `dim` is the device's number, then its block."""
        shape = list(self.type.shape)
        return hlo.reshape(self.operand, [*shape[:dim], self.size, *shape[dim:]])

    def own_slice(self, value: ir.Value, dim: int) -> ir.Value:
        """This device's slice of a value that all have."""
        size = self.type.shape[dim]
        starts = [hlo.index(0)] * self.type.rank
        starts[dim] = self._own(lambda member: member * size)
        return hlo.dynamic_slice(value, starts, self.type.shape)

    def _own(self, number_of: Callable[[int], int]) -> ir.Value:
        """The number of this device by its position in its group."""
        ranks = range(self.grid.size)
        positions = [self.grid.index_along(each, self.step.axes) for each in ranks]
        return self.groups.of_rank(list(map(number_of, positions)))

    def permuted(self, value: ir.Value, members: Iterable[tuple[int, int]]) -> ir.Value:
        """Send from the first member of each pair to the second; others get zeros."""
        pairs = list(members)
        if not pairs:
            return hlo.number(0, value.type)
        if self.is_partly_reached:
            # XLA lets all devices of the program meet at a permutation, and only those of its group
            # at another collective.
            return self._gathered_from(value, {to: member for member, to in pairs})
        listed = [
            (group[member], group[to])
            for group in self.grid.groups(self.step.axes)
            for member, to in pairs
        ]
        sources = {
            "source_target_pairs": hlo.table(listed, [len(listed), 2]),
            **self.groups.channel(),
        }
        return hlo.stablehlo_op("collective_permute", value.type, [value], sources)

    def _gathered_from(self, value: ir.Value, source_of: Mapping[int, int]) -> ir.Value:
        """The value of each member's source in the group; members without one get zeros."""
        source = self._own(lambda member: source_of.get(member, 0))
        starts = [source, *[hlo.index(0)] * value.type.rank]
        got = hlo.dynamic_slice(self.stacked(value), starts, [1, *value.type.shape])
        receives = self._own(lambda member: int(member in source_of))
        sent = hlo.reshape(got, value.type.shape)
        return hlo.select(
            hlo.compare("NE", receives, hlo.index(0)), sent, hlo.number(0, value.type)
        )

    def slice(self, value: ir.Value, dim: int, start: int, size: int) -> ir.Value:
        """So many elements along `dim`."""
        return hlo.slice_along(value, dim, start, size)

    def received(
        self, value: ir.Value, got: ir.Value, dim: int, start: int, members: Collection[int]
    ) -> ir.Value:
        """On these members of each group `got` is in `value`, from an element along `dim` on."""
        receives = self._own(lambda member: int(member in members))
        kept = hlo.slice_along(value, dim, start, got.type.shape[dim])
        starts = [hlo.index(0)] * value.type.rank
        starts[dim] = hlo.index(start)
        new = hlo.select(hlo.compare("NE", receives, hlo.index(0)), got, kept)
        return hlo.dynamic_update(value, new, starts)

    def only_on(self, member: int, value: ir.Value, reduction: Reduction = "sum") -> ir.Value:
        """The value on one member of each group; the others have the identity of a reduction."""
        is_member = hlo.compare(
            "EQ", self.groups.position(self.grid, self.step.axes), hlo.index(member)
        )
        return hlo.select(is_member, value, identity(reduction, value.type))


def identity(reduction: Reduction, type_: ir.RankedTensorType) -> ir.Value:
    """A constant of the identity of a reduction."""
    element = type_.element_type
    if reduction in ("max", "min") and isinstance(element, ir.FloatType):
        return hlo.number(float("-inf" if reduction == "max" else "inf"), type_)
    if reduction in ("max", "min"):
        return hlo.number(extreme(element, is_largest=reduction == "min"), type_)
    return hlo.number({"product": 1, "bitwise_and": -1}.get(reduction, 0), type_)


def extreme(element: ir.Type, *, is_largest: bool) -> int:
    """The largest or the smallest integer of a type."""
    if element.is_unsigned or element.width == 1:
        return 2**element.width - 1 if is_largest else 0
    return 2 ** (element.width - 1) - 1 if is_largest else -(2 ** (element.width - 1))
