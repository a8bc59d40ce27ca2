"""One device's piece of each tensor of an op, as functions that cut ops are given it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.local import write_local
from shard_dialect.ir.shardings import Shardings
from shard_dialect.model import AllSlice, Axes, Sharding
from shard_dialect.rules import Cut, Piece


def cut_of(op: ir.Operation, shardings: Shardings) -> Cut | None:
    """The pieces of the op's tensors, by their distributed types; `None` where all are whole."""
    types = [value.type for value in (*op.operands, *op.results)]
    if all(shardings.of_type(type_) is None for type_ in types):
        return None
    pieces = tuple(_piece(type_, shardings) for type_ in types)
    count = len(op.operands)
    return Cut(op, pieces[:count], pieces[count:])


def _piece(type_: ir.Type, shardings: Shardings) -> Piece | None:
    if not isinstance(type_, ir.RankedTensorType):
        return None
    whole, shape = tuple(type_.shape), tuple(shardings.local(type_).shape)
    sharding = shardings.of_type(type_)
    if sharding is None:
        sharding = Sharding.replicated(next(iter(shardings.grids)), len(whole))
    grid = shardings.grid(sharding.grid)
    halos = tuple(sharding.halo(dim) for dim in range(len(whole)))

    def begins(dim: int) -> list[int]:
        """Where each device's piece begins, padding counted, and behind the last one."""
        size = shape[dim] - sum(halos[dim])
        return [size * number for number in range(grid.axes_size(sharding.split_axes[dim]) + 1)]

    def begin(dim: int) -> ir.Value:
        return _own(begins(dim)[:-1], sharding.split_axes[dim], grid.name)

    def held(dim: int) -> ir.Value:
        ends = [min(end, whole[dim]) for end in begins(dim)]
        counts = [after - before for before, after in pairwise(ends)]
        return _own(counts, sharding.split_axes[dim], grid.name)

    split = frozenset(dim for dim, axes in enumerate(sharding.split_axes) if axes)
    uneven = frozenset(dim for dim in split if begins(dim)[-1] != whole[dim])
    return Piece(whole, shape, begin, held, halos, split, uneven)


def _own(numbers: Sequence[int], axes: Axes, grid: str) -> ir.Value:
    """This device's of the numbers of all devices along `axes`, as a `tensor<1xi64>`."""
    integer = ir.IntegerType.get_signless(64)
    attributes = [ir.IntegerAttr.get(integer, number) for number in numbers]
    type_ = ir.RankedTensorType.get([len(numbers)], integer)
    value = build.scalar(ir.DenseElementsAttr.get(attributes, type_)).results[0]
    one = ir.RankedTensorType.get([1], integer)
    return write_local(AllSlice(0, axes), grid, value, one) if len(numbers) > 1 else value
