"""Emit StableHLO's reductions that find the position of the largest or the smallest element.

    values, places = reduce (x, iota) by ...         at = np.argmax(x, axis=1).astype(np.int32)

If the positions are not an iota but computed, as when shards are joined, they are looked up.
"""

from __future__ import annotations

from math import inf

from shard_dialect.emit.element_types import is_flipped
from shard_dialect.emit.ops import accumulation, linalg_ops
from shard_dialect.emit.writer import Writer
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.rules.stablehlo.argmax_search import search_kind
from shard_dialect.rules.stablehlo.attribute_reading import integers


def search(w: Writer, op: ir.Operation) -> None:
    """Write a reduction of elements and of their positions."""
    x, indices, init, first = op.operands
    element, dims = x.type.element_type, integers(op, "dimensions")
    kind = search_kind(op)
    if kind is None:
        raise w.refuse(op, "its body combines elements by none of the known reductions")
    start = build.splat_value(init)
    if start is None or not _is_least(start, kind) or not linalg_ops.is_zero(first):
        raise w.refuse(op, "it starts from something")
    if len(dims) != 1 or not x.type.shape[dims[0]]:
        raise w.refuse(op, "it looks along no dimension, or several")
    (dim,) = dims
    value, index = op.results
    text = w.use(x)
    if list(value.uses):
        reduced = accumulation.reduced(w, kind, text, dims, element, op)
        w.define(value, reduced, accumulation.JOINED[kind])
    ordered = _ordered(w, text, element)
    at = f"{w.module}.arg{kind}({ordered}, {w.pick('axis', 'dim')}={dim})"
    if not _counts(indices, dim):
        name = w.names.new("at")
        w.line(f"{name} = {at}")
        least = w.number(start.value, element)
        at = f"least_index({text}, {w.use(indices)}, {name}, {dim}, {least})"
    w.define(index, w.cast(at, index.type.element_type, op.location), f"{kind}_at")


def _ordered(w: Writer, x: str, element: ir.Type) -> str:
    """Elements that the library orders as MLIR does: torch orders no bits."""
    if w.is_torch and str(element) == "i1":
        return f"{x}.to(torch.int8)"
    return f"flipped({x})" if w.is_torch and is_flipped(element) else x


def _is_least(start: ir.Attribute, kind: str) -> bool:
    """Whether every element is preferred to the one that the search starts from."""
    if isinstance(start.type, ir.FloatType):
        return bool(start.value == (-inf if kind == "max" else inf))
    if str(start.type) == "i1":
        return bool(start.value) == (kind == "min")
    return bool(start == reductions.identity("max" if kind == "max" else "min", start.type))


def _counts(indices: ir.Value, dim: int) -> bool:
    """Whether each element is its position along the dimension."""
    op = indices.owner
    if isinstance(op, ir.Block):
        return False
    if op.name == "stablehlo.iota":
        return bool(op.attributes["iota_dimension"].value == dim)
    if op.name != "stablehlo.broadcast_in_dim":
        return False
    dims, x = integers(op.operation, "broadcast_dimensions"), op.operands[0]
    size = indices.type.shape[dim]
    return dim in dims and x.type.shape[dims.index(dim)] == size and _counts(x, dims.index(dim))
