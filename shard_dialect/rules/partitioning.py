"""What a cutting function is given: an op at the partition, and the shards that it works on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingError, ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.model.window import MOST_SHARDS


@dataclass(frozen=True, slots=True)
class Shard:
    """One device's shard of a tensor: `whole` is the global shape, `shape` the local one.

    `halos` are how many elements before and after its own it has in `shape` along each dimension,
    and `devices` how many have shards there. Where these do not divide the whole the last shards
    are padded at their end, and anything may be there (`rules.padding`).

    `own(dim, numbers)` makes, at the current insertion point, a `tensor<1xi64>`: this device's
    number, of those of all devices along the dimension.
    """

    whole: Shape
    shape: Shape
    own: Callable[[int, Sequence[int]], ir.Value]
    halos: tuple[tuple[int, int], ...]
    devices: tuple[int, ...]

    def is_split(self, dim: int) -> bool:
        return self.devices[dim] > 1

    def is_uneven(self, dim: int) -> bool:
        return self.devices[dim] * self.size(dim) != self.whole[dim]

    def size(self, dim: int) -> int:
        """How many elements the first device has, without halos."""
        return self.shape[dim] - sum(self.halos[dim])

    def begin(self, dim: int) -> ir.Value:
        """The index in the whole tensor of the first element of this device's own."""
        size = self.size(dim)
        return self.own(dim, [size * device for device in places(self.devices[dim])])

    def end(self, dim: int) -> ir.Value:
        """The index in this device's shard, halos included, at which the whole tensor ends."""
        size, (low, _) = self.size(dim), self.halos[dim]
        ends = [self.whole[dim] + low - size * device for device in places(self.devices[dim])]
        return self.own(dim, [min(max(end, 0), self.shape[dim]) for end in ends])


def places(count: int) -> range:
    """The numbers of `count` devices, for a list of what each has; raises where it is too long."""
    if count > MOST_SHARDS:
        raise ShardingError(
            f"tells {count} devices apart, each by a number in a list: expected {MOST_SHARDS} at "
            "most; split fewer dimensions, or along fewer devices"
        )
    return range(count)


@dataclass(frozen=True, slots=True)
class PartitionedOp:
    """An op with the types of shards, and all else yet as for whole tensors; its rule for these.

    `None` stands for an operand or result that is no tensor.
    """

    op: ir.Operation
    rule: ShardingRule
    operands: tuple[Shard | None, ...]
    results: tuple[Shard | None, ...]

    def operand(self, place: int) -> Shard:
        found = self.operands[place]
        assert found is not None, "an op is cut along tensors"
        return found

    @property
    def result(self) -> Shard:
        """That of the first result."""
        found = self.results[0]
        assert found is not None, "an op is cut along tensors"
        return found

    def devices(self, factor: int) -> int:
        """How many the factor is split among, by the results that have it."""
        for dims, shard in zip(self.rule.results, self.results, strict=True):
            for dim, factors in enumerate(dims or ()):
                if shard is not None and factors == (factor,):
                    return shard.devices[dim]
        return 1


PartitionFunction = Callable[[PartitionedOp], None]
"""Changes the attributes of an op to those of the same op on shards, or writes ops around it."""
