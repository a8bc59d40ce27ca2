"""Emit `stablehlo.sort`: the permutation that the comparator gives, applied to the operands.

%r:2 = sort (%k, %v) by %a < %b        order = np.argsort(k, axis=1, kind="stable")
                                       ordered = np.take_along_axis(k, order, 1)
                                       ordered_2 = np.take_along_axis(v, order, 1)

Emit StableHLO's reductions that find the position of the largest or the smallest element.

    values, places = reduce (x, iota) by ...         at = np.argmax(x, axis=1).astype(np.int32)

If the positions are not an iota but computed, as when shards are joined, they are looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from shard_dialect.backends.python.element_types import is_flipped
from shard_dialect.backends.python.ops import accumulation, linalg_ops
from shard_dialect.backends.python.writer import Writer
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build import is_used
from shard_dialect.ir.scalar_expressions import Term, commuted, yielded_terms
from shard_dialect.ir.walk import body
from shard_dialect.ops.stablehlo.attribute_reading import integer, integers
from shard_dialect.ops.stablehlo.reduction_rules import search_kind


@dataclass(frozen=True)
class _Key:
    """A sort key: an operand, and its `order`, one of `_FLOATS`."""

    operand: int
    is_falling: bool
    order: str


def sort(w: Writer, op: ir.Operation) -> None:
    """Write a sort; raise for a comparator that is not lexicographic."""
    count = len(op.operands)
    (compared,) = yielded_terms(body(op), [f"{each}{at}" for at in range(count) for each in "xy"])
    keys = _keys(compared, count)
    if not keys:
        raise w.refuse(op, "its body compares elements in no known order")
    dim = integer(op, "dimension", -1) % len(op.operands[0].type.shape)
    operands = w.uses(op)
    element = op.operands[0].type.element_type
    is_plain = keys[0].order != "total" and not (w.is_torch and is_flipped(element))
    if len(keys) == len(operands) == 1 and not keys[0].is_falling and is_plain:
        numpy = f'np.sort({operands[0]}, axis={dim}, kind="stable")'
        torch = f"torch.sort({operands[0]}, dim={dim}, stable=True).values"
        w.define(op.results[0], w.pick(numpy, torch), "ordered")
        return
    texts = [
        text
        for key in keys
        for text in _written(w, key, op.operands[key.operand].type, operands[key.operand])
    ]
    order = w.names.new("order")
    w.line(f"{order} = {_order(w, texts, dim)}")
    for result, operand in zip(op.results, operands, strict=True):
        if is_used(result):
            take = w.pick("np.take_along_axis", "torch.take_along_dim")
            w.define(result, f"{take}({operand}, {order}, {dim})", "ordered")


def _order(w: Writer, keys: list[str], dim: int) -> str:
    """The permutation of a stable sort by some keys."""
    if len(keys) == 1:
        numpy = f'np.argsort({keys[0]}, axis={dim}, kind="stable")'
        return w.pick(numpy, f"torch.argsort({keys[0]}, dim={dim}, stable=True)")
    listed = ", ".join(reversed(keys))  # its last key is the most significant
    return w.pick(f"np.lexsort(({listed}), axis={dim})", f"lexsort([{listed}], {dim})")


def _written(w: Writer, key: _Key, type_: ir.RankedTensorType, x: str) -> list[str]:
    """Expressions that ascend with the key: numpy and torch sort ascending, NaNs last."""
    if w.is_torch and is_flipped(type_.element_type):
        x = f"flipped({x})"
    if not isinstance(type_.element_type, ir.FloatType):
        return [f"~{x}" if key.is_falling else x]
    rising, falling = _FLOATS[key.order]
    return [each.format(x, m=w.module) for each in (falling if key.is_falling else rising)]


_FLOATS = {
    "plain": (("{0}",), ("-{0}",)),
    "numbers": (("{0}",), ("~{m}.isnan({0})", "-{0}")),
    "total": (("total_order({0})",), ("~total_order({0})",)),
}
"""For each order of floats, the expressions of an ascending and a descending key.

`plain` does not order NaNs, `numbers` has them after all numbers and -0.0 equal to 0.0, and
`total` is IEEE 754's total order.
"""


def _keys(compared: Term, count: int) -> list[_Key]:
    """The sort keys of a comparator of `x0, x1, ...` and `y0, y1, ...`; empty if they are unclear.

    x0 < y0 or x0 == y0 and (x1 < y1 or ...)
    """
    if isinstance(compared, tuple) and compared[0] == "or":
        _, a, b = compared
        for less, rest in ((a, b), (b, a)):
            first, more = _keys(less, count), _after(less, rest)
            if len(first) == 1 and more is not None:
                following = _keys(more, count)
                return first + following if following else []
        return []
    for operand in range(count):
        for order, (less_than, of) in _ORDERS.items():
            x, y = of(f"x{operand}"), of(f"y{operand}")
            if compared in ((less_than, x, y), (less_than, y, x)):
                return [_Key(operand, compared[1] == y, order)]
    return []


def _after(less: Term, rest: Term) -> Term | None:
    """For `x == y and more`, the term `more`, where `less` is `x < y`; else `None`."""
    if isinstance(less, str) or isinstance(rest, str):
        return None
    if str(less[0]) not in _EQUAL or rest[0] != "and":
        return None
    equal = commuted(_EQUAL[str(less[0])], less[1], less[2])
    later = [each for each in rest[1:] if each != equal]
    return later[0] if len(later) == 1 else None


def _canonical(x: str) -> Term:
    """The operand as JAX compares it in the total order: with one zero, and one NaN."""
    is_zero = commuted("eq", x, "0.0")
    return ("select", ("ne", x, x), "nan", ("select", is_zero, "0.0", x))


_EQUAL = {"lt": "eq", "totalorder_lt": "totalorder_eq"}
_ORDERS: dict[str, tuple[str, Callable[[str], Term]]] = {
    "plain": ("lt", lambda x: x),
    "numbers": ("totalorder_lt", _canonical),
    "total": ("totalorder_lt", lambda x: x),
}


def search(w: Writer, op: ir.Operation) -> bool:
    """Write a reduction of elements and of their positions; `False` if it is another one."""
    kind, dims = search_kind(op), integers(op, "dimensions")
    if kind is None:
        return False
    x, indices, init, first = op.operands
    element, start = x.type.element_type, build.splat_value(init)
    if start is None or not _is_least(start, kind) or not linalg_ops.is_zero(first):
        return False
    if len(dims) != 1 or not x.type.shape[dims[0]]:
        return False
    (dim,) = dims
    value, index = op.results
    text = w.use(x)
    if is_used(value):
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
    return True


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
