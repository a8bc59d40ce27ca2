"""One device's piece of each tensor of an op, as functions that cut ops are given it."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.local import write_local
from shard_dialect.ir.shardings import Shardings
from shard_dialect.model import AllSlice, ShardingRule
from shard_dialect.rules import Cut, Piece


def cut_of(op: ir.Operation, rule: ShardingRule, shardings: Shardings) -> Cut:
    """The pieces of the op's tensors, by their distributed types."""
    pieces = tuple(_piece(value.type, shardings) for value in (*op.operands, *op.results))
    count = len(op.operands)
    return Cut(op, rule, pieces[:count], pieces[count:])


def _piece(type_: ir.Type, shardings: Shardings) -> Piece | None:
    if not isinstance(type_, ir.RankedTensorType):
        return None
    whole, shape = tuple(type_.shape), tuple(shardings.local(type_).shape)
    sharding = shardings.of_type(type_)
    if sharding is None:
        return Piece(
            whole, shape, lambda _, numbers: _listed(numbers), _NONE * len(whole), _ONE * len(whole)
        )
    split, grid = sharding.split_axes, shardings.grid(sharding.grid)

    def own(dim: int, numbers: Sequence[int]) -> ir.Value:
        listed = _listed(numbers)
        if len(numbers) == 1:
            return listed
        return write_local(
            AllSlice(0, split[dim]), grid.name, listed, build.resized(listed.type, [1])
        )

    halos = tuple(map(sharding.halo, range(len(whole))))
    return Piece(whole, shape, own, halos, tuple(map(grid.axes_size, split)))


_NONE = ((0, 0),)
_ONE = (1,)


def _listed(numbers: Sequence[int]) -> ir.Value:
    integer = ir.IntegerType.get_signless(64)
    attributes = [ir.IntegerAttr.get(integer, number) for number in numbers]
    type_ = ir.RankedTensorType.get([len(numbers)], integer)
    return build.scalar(ir.DenseElementsAttr.get(attributes, type_)).results[0]
