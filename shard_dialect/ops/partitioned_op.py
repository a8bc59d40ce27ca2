"""The argument of partition functions: an op that is being partitioned, and its shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.loops_and_masks import as_index
from shard_dialect.model import Reduction, ShardingError, ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.model.windows import MOST_SHARDS


@dataclass(frozen=True, slots=True)
class Shard:
    """One device's shard of a tensor: `global_shape` is the global shape, `shape` the local one.

    `halos` has, for each dimension, the sizes of the halo before and after, which `shape` includes.
    `devices` has the number of shards of each dimension. In an uneven dimension the last shards are
    padded at their end, and the padding may hold anything (`ops.padding`). `offsets` has where
    each shard of a dimension begins, and where the last one ends, for dimensions whose shards are
    not equal; any of these may be padded. It is () where no dimension has such shards. Halos hold
    the identity of `fill` outside of the tensor.

    `own(dim, numbers)` creates, at the insertion point, a `tensor<1xi64>`: the entry of `numbers`
    for this device's index along the dimension. `permuted(dim, to, value)` creates the `value` of
    another device: device i along the dimension sends its own to device `to[i]`.
    """

    global_shape: Shape
    shape: Shape
    own: Callable[[int, Sequence[int]], ir.Value]
    halos: tuple[tuple[int, int], ...]
    devices: tuple[int, ...]
    offsets: tuple[tuple[int, ...], ...] = ()
    fill: Reduction = "sum"
    permuted: Callable[[int, Sequence[int], ir.Value], ir.Value] = lambda _, __, value: value

    def is_split(self, dim: int) -> bool:
        """Whether dimension `dim` has several shards."""
        return self.devices[dim] > 1

    def is_uneven(self, dim: int) -> bool:
        """Whether dimension `dim` is uneven."""
        return self.devices[dim] * self.size(dim) != self.global_shape[dim]

    def size(self, dim: int) -> int:
        """The local size of dimension `dim`, without halos."""
        return self.shape[dim] - sum(self.halos[dim])

    def index(self, dim: int, numbers: Sequence[int]) -> int | ir.Value:
        """Of `numbers`, one a device along the dimension, this device's, as an index."""
        return numbers[0] if len(set(numbers)) == 1 else as_index(self.own(dim, numbers))

    def begin(self, dim: int) -> ir.Value:
        """The global index of the first element of this device's shard, a `tensor<1xi64>`."""
        return self.own(dim, self._begins(dim))

    def _begins(self, dim: int) -> list[int]:
        if self.offsets and self.offsets[dim]:
            return list(self.offsets[dim][:-1])
        size = self.size(dim)
        return [size * device for device in device_indices(self.devices[dim])]

    def end(self, dim: int) -> ir.Value:
        """The local index, halos included, at which the tensor ends, a `tensor<1xi64>`.

        Where shards begin at offsets, it is the index at which the next shard begins.
        """
        begins, (low, _) = self._begins(dim), self.halos[dim]
        ends = [self.global_shape[dim]] * len(begins)
        if self.offsets and self.offsets[dim]:
            ends = list(self.offsets[dim][1:])
        local = [end + low - begin for begin, end in zip(begins, ends, strict=True)]
        return self.own(dim, [min(max(end, 0), self.shape[dim]) for end in local])

    def first(self, dim: int) -> ir.Value:
        """The local index, halos included, at which the tensor begins, a `tensor<1xi64>`."""
        low, _ = self.halos[dim]
        firsts = [low - begin for begin in self._begins(dim)]
        return self.own(dim, [min(max(first, 0), self.shape[dim]) for first in firsts])


def device_indices(count: int) -> range:
    """The indices of `count` devices along a dimension; raises `ShardingError` if too many."""
    if count > MOST_SHARDS:
        raise ShardingError(
            f"tells {count:,} devices apart, each by a number in a list: expected {MOST_SHARDS:,} "
            "at most; split fewer dimensions, or along fewer devices"
        )
    return range(count)


@dataclass(frozen=True, slots=True)
class PartitionedOp:
    """An op whose types are already local, while its attributes and `rule` are still global.

    `None` stands for an operand or result that is not a tensor.
    """

    op: ir.Operation
    rule: ShardingRule
    operands: tuple[Shard | None, ...]
    results: tuple[Shard | None, ...]

    def operand(self, number: int) -> Shard:
        """The shard of an operand, which must be a tensor."""
        shard = self.operands[number]
        assert shard is not None, "only tensors are sharded"
        return shard

    @property
    def result(self) -> Shard:
        """The shard of the first result, which must be a tensor."""
        shard = self.results[0]
        assert shard is not None, "only tensors are sharded"
        return shard

    def devices(self, factor: int) -> int:
        """The number of devices that split the factor, from the tensors that have it alone."""
        tensors = (
            *zip(self.rule.results, self.results, strict=True),
            *zip(self.rule.windowed_operands, self.operands, strict=True),
        )
        for dims, shard in tensors:
            for dim, factors in enumerate(dims or ()):
                if shard is not None and factors == (factor,):
                    return shard.devices[dim]
        return 1


PartitionFunction = Callable[[PartitionedOp], None]
"""Changes the attributes of an op to local ones, or creates ops around it."""
