"""Join the parts of a tensor that zeros pad to its size and sums put together.

    %1 = pad %a, %zero, low = [1], high = [0]       %a of one element, from index 1 on
    %2 = pad %b, %zero, low = [0], high = [1]       %b of one element, from index 0 on
    %3 = add %1, %2
      becomes
    %3 = concatenate %b, %a

The gradients of slices are such paddings, so that JAX's of a roll, or of a concatenation that is
taken apart, are their sum.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import drop_unused
from shard_dialect.ir.building.reductions import reduction_with_identity
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import maker_of, walk
from shard_dialect.ops.stablehlo.attribute_reading import padded_at

_ADD, _PAD = "stablehlo.add", "stablehlo.pad"


def join_paddings(function: ir.Operation, shardings: Shardings) -> None:
    """Join the parts along split dimensions; the function is in the propagated form."""
    ops = [op for op in walk(function) if op.name in (_ADD, _PAD) and SHARDINGS in op.attributes]
    joined: set[ir.Value] = set()
    for op in reversed(ops):  # a sum of several paddings has sums of fewer in it
        is_part = op.results[0] in joined
        placed = _placed(op, shardings) if op.name == _ADD and not is_part else None
        if placed is None:
            joined.update(op.operands if is_part else ())
            continue
        dim, parts = placed
        with ir.InsertionPoint(op), op.location:
            whole = hlo.concatenate(parts, dim)
        whole.owner.attributes[SHARDINGS] = op.attributes[SHARDINGS]
        op.results[0].replace_all_uses_with(whole)
        joined.update((op.results[0], *op.operands))
    drop_unused(op for op in reversed(ops) if op.results[0] in joined)


def _placed(op: ir.Operation, shardings: Shardings) -> tuple[int, list[ir.Value]] | None:
    """The split dimension that the parts of a sum lie along, and the parts in its order."""
    sizes, moved = op.results[0].type.shape, set()
    found: list[tuple[int, int, ir.Value]] = []
    for padding in _paddings(op):
        if padding is None:
            return None
        part = padding.operands[0]
        lows = padded_at(padding)
        dims = [dim for dim, size in enumerate(part.type.shape) if size != sizes[dim]]
        if len(dims) != 1 or lows is None:
            return None
        moved.add(dims[0])
        found.append((lows[dims[0]], part.type.shape[dims[0]], part))
    if len(moved) != 1:
        return None
    dim, at = moved.pop(), 0
    for low, size, _ in sorted(found, key=lambda each: each[0]):
        if low != at:
            return None
        at += size
    annotation = shardings.of_results(op).get(0)
    if annotation is None or at != sizes[dim] or not annotation.sharding.split_axes[dim]:
        return None
    return dim, [part for _, _, part in sorted(found, key=lambda each: each[0])]


def _paddings(op: ir.Operation) -> Iterator[ir.Operation | None]:
    """The paddings by zeros that a sum adds up; `None` for anything else that it adds."""
    for value in op.operands:
        owner = maker_of(value)
        if owner is None or owner.name not in (_ADD, _PAD):
            yield None
        elif owner.name == _ADD:
            yield from _paddings(owner)
        else:
            is_zero = reduction_with_identity(owner.operands[1]) == "sum"
            yield owner if is_zero else None
