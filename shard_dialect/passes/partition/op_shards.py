"""Describe one device's shard of each tensor of an op, as the partition rules take it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.local_collectives import write_local
from shard_dialect.model import AllSlice, Axes, Permute, ShardingRule
from shard_dialect.rules import PartitionedOp, Shard
from shard_dialect.rules.partitioned_op import device_indices


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
    split, grid = sharding.split_axes, shardings.grid(sharding.grid)

    def own(dim: int, numbers: Sequence[int]) -> ir.Value:
        return own_number(numbers, split[dim], grid.name)

    def from_before(dim: int, distance: int, value: ir.Value) -> ir.Value:
        devices = grid.axes_size(split[dim])
        to = tuple((device + distance) % devices for device in device_indices(devices))
        return write_local(Permute(split[dim], to), grid.name, value, value.type)

    halos = tuple(map(sharding.halo, range(len(global_shape))))
    offsets = tuple(
        sharding.bounds(dim, global_shape[dim], grid) if at else ()
        for dim, at in enumerate(sharding.offsets)
    )
    devices = tuple(map(grid.axes_size, split))
    return Shard(global_shape, shape, own, halos, devices, offsets, sharding.fill, from_before)


def _same_on_all(dim: int, numbers: Sequence[int]) -> ir.Value:
    return own_number(numbers, (), "")


def own_number(numbers: Sequence[int], axes: Axes, grid: str) -> ir.Value:
    """Of `numbers`, one per device along `axes`, this device's, as a `tensor<1xi64>`."""
    integer = ir.IntegerType.get_signless(64)
    listed = build.scalar(ir.DenseElementsAttr.get(array("q", numbers), type=integer)).results[0]
    if len(numbers) == 1:
        return listed
    return write_local(AllSlice(0, axes), grid, listed, build.resized(listed.type, [1]))
