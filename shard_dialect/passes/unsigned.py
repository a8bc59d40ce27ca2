"""Maxima and minima of unsigned integers, by collectives that know of signed ones.

    %a = linalg.generic ... ins(%x : tensor<4xi8>) { ... arith.xori %element, %first_bit ... }
    %b = shard.all_reduce %a on @g grid_axes = [0] reduction = max : tensor<4xi8> -> tensor<4xi8>
    %0 = linalg.generic ... ins(%b : tensor<4xi8>) { ... arith.xori %element, %first_bit ... }

With their first bits turned over unsigned integers are in the order of signed ones.
"""

from __future__ import annotations

from shard_dialect.ir import reductions
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.loops import elementwise
from shard_dialect.ir.masking import select
from shard_dialect.model import AllReduce, Grid, ReduceScatter
from shard_dialect.model.rooted import Reduce, place_of
from shard_dialect.passes.rows import of_rank, rank_of


def order_as_signed(
    op: ir.Operation, step: AllReduce | Reduce | ReduceScatter, grid: Grid, function: ir.Operation
) -> None:
    """Turn what a collective of `function`, or the start of one, is given, and what it gives."""
    type_ = op.operands[0].type
    if step.reduction not in ("max", "min") or not reductions.is_unsigned(type_.element_type):
        return
    element = reductions.signless(type_.element_type)
    with ir.InsertionPoint(op), op.location:
        op.operands[0] = _turned(op.operands[0], _first_bit(element))
    ends = [use.owner for use in op.results[0].uses] if op.name == "mesh.start" else [op]
    for end in ends:
        uses = list(end.results[0].uses)
        with ir.InsertionPoint.after(end), end.location:
            bit = _first_bit(element)
            if isinstance(step, Reduce):
                bit = _at_root(bit, step, grid, function)
            turned = _turned(end.results[0], bit)
        for use in uses:
            use.owner.operands[use.operand_number] = turned


def _first_bit(element: ir.Type) -> ir.Value:
    """The smallest signed number has this bit, and no other."""
    return reductions.neutral("max", element)


def _at_root(bit: ir.Value, step: Reduce, grid: Grid, function: ir.Operation) -> ir.Value:
    """No bit elsewhere: what a reduction gives the others is nothing."""
    root = place_of(step.root, grid.sizes_along(step.axes))
    is_root = [int(grid.index_along(rank, step.axes) == root) for rank in range(grid.size)]
    here = of_rank(is_root, ir.IntegerType.get_signless(1), rank_of(function, grid))
    return select(here, bit, reductions.neutral("sum", bit.type))


def _turned(value: ir.Value, bit: ir.Value) -> ir.Value:
    """With `bit` of each element the other one."""
    plain = reductions.as_type(value, reductions.signless(value.type))
    turned = elementwise([plain], lambda each: reductions.combine("bitwise_xor", each, bit))
    return reductions.as_type(turned, value.type)
