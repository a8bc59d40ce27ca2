"""Replace a sum of disjoint parts, each in zeros of its own, by updates of one tensor.

    %a = stablehlo.dynamic_update_slice %zeros, %g, %c1, ...
    %b = stablehlo.pad %h, 0, low = [2, 0], high = [1, 0]       %a, and %h put into it as row 2
    %c = stablehlo.add %a, %b

So JAX writes the gradient of weights of which a loop, or unrolled layers, take one row after the
other. Each stage can then put in its own rows.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.walk import body, operations
from shard_dialect.passes.pipelining.unroll_loops import (
    UPDATE,
    are_disjoint,
    written,
)

_REPEAT = "stablehlo.broadcast_in_dim"
_Part = tuple[ir.Value, list[int]]
"""A part, and the indices at which it is written."""


def join_parts(function: ir.Operation) -> None:
    """Replace the sums of disjoint parts in a function of one block, in place."""
    parts_of: dict[ir.Value, list[_Part] | None] = {}
    for op in operations(body(function)):
        for value in op.results:
            parts_of[value] = _parts(value, parts_of)
        if op.name != "stablehlo.add" or SHARDINGS in op.attributes:
            continue
        first, second = (parts_of.get(value) for value in op.operands)
        if first is None or second is None or not _are_apart(first, second):
            continue
        with ir.InsertionPoint(op), op.location:
            joined = _joined(op.operands[0], first, second)
        parts_of[joined] = [*first, *second]
        op.results[0].replace_all_uses_with(joined)
        op.erase()


def _parts(value: ir.Value, parts_of: dict[ir.Value, list[_Part] | None]) -> list[_Part] | None:
    """The parts of a tensor that is zero elsewhere; `None` if it is not known to be."""
    op = value.owner
    if _is_zero(value):
        return []
    if (found := written(value)) is not None:
        before = parts_of.get(op.operands[0])
        return None if before is None else [*before, found]
    if not isinstance(op, ir.Block) and op.name == "stablehlo.pad" and _is_zero(op.operands[1]):
        low, high, between = (
            list(op.attributes[key])
            for key in ("edge_padding_low", "edge_padding_high", "interior_padding")
        )
        return [(op.operands[0], low)] if min(*low, *high, 0) >= 0 and not any(between) else None
    return None


def _is_zero(value: ir.Value) -> bool:
    """Whether all elements are constants, and zero."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == _REPEAT:
        value = value.owner.operands[0]
    constant = build.splat_value(value) or build.constant_value(value)
    return isinstance(constant, ir.FloatAttr | ir.IntegerAttr) and constant.value == 0


def _are_apart(first: list[_Part], second: list[_Part]) -> bool:
    return all(
        are_disjoint(at, update.type.shape, other_at, other.type.shape)
        for update, at in first
        for other, other_at in second
    )


def _joined(whole: ir.Value, first: list[_Part], second: list[_Part]) -> ir.Value:
    """`whole`, which has the `first` parts, with the `second` put in."""
    if first and whole.owner.name != UPDATE:
        element = reductions.identity("sum", whole.type.element_type)
        whole = hlo.splat(element, whole.type)
        second = [*first, *second]
    index = hlo.tensor([], hlo.integer(32))
    for update, at in second:
        whole = hlo.dynamic_update(whole, update, [hlo.number(begin, index) for begin in at])
    return whole
