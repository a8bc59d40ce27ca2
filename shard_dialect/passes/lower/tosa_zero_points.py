"""TOSA's matrix product with zero points that are no constants, for which upstream has no code.

    %r = tosa.matmul %a, %b, %p, %q
      becomes, each line a `linalg.generic` in the type of %r,
    %x[n, h, c] = %a[n, h, c] - %p[0]
    %y[n, c, w] = %b[n, c, w] - %q[0]
    %r[n, h, w] = the sum over c of %x[n, h, c] * %y[n, c, w]

Source: TOSA 1.0, MATMUL.
"""

from __future__ import annotations

from collections.abc import Iterable

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, build_loops


def expand_matmuls(ops: Iterable[ir.Operation]) -> None:
    """Replace the matrix products among `ops` whose zero points are not known."""
    for op in ops:
        if op.name == "tosa.matmul" and any(
            build.constant_value(each) is None for each in list(op.operands)[2:]
        ):
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_expanded(op))
            op.erase()


def _expanded(op: ir.Operation) -> ir.Value:
    type_ = op.results[0].type
    element = type_.element_type
    is_float = isinstance(element, ir.FloatType)
    suffix, widening = ("f", "arith.extf") if is_float else ("i", "arith.extsi")

    def wide(value: ir.Value) -> ir.Value:
        return value if value.type == element else build.cast(widening, value, element)

    def combine(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        return build.create(f"arith.{name}{suffix}", [element], [a, b]).results[0]

    def shifted(value: ir.Value, zero_point: ir.Value) -> ir.Value:
        scalar = ir.RankedTensorType.get([], zero_point.type.element_type)
        none = {"reassociation": ir.ArrayAttr.get([])}
        point = build.create("tensor.collapse_shape", [scalar], [zero_point], none).results[0]
        into = build.empty(ir.RankedTensorType.get(value.type.shape, element)).results[0]
        d = [ir.AffineDimExpr.get(number) for number in range(3)]
        return build_loops.generic(
            [value, point],
            into,
            [_map(3, *d), _map(3), _map(3, *d)],
            ["parallel"] * 3,
            lambda each, point, _: combine("sub", wide(each), wide(point)),
        ).results[0]

    a, b, p, q = op.operands
    n, h, w, c = (ir.AffineDimExpr.get(number) for number in range(4))
    zero = ir.FloatAttr.get(element, 0.0) if is_float else ir.IntegerAttr.get(element, 0)
    into = build.fill(build.scalar(zero).results[0], build.empty(type_).results[0]).results[0]
    return build_loops.generic(
        [shifted(a, p), shifted(b, q)],
        into,
        [_map(4, n, h, c), _map(4, n, c, w), _map(4, n, h, w)],
        ["parallel", "parallel", "parallel", "reduction"],
        lambda x, y, sum_: combine("add", sum_, combine("mul", x, y)),
    ).results[0]


def _map(rank: int, *results: ir.AffineExpr) -> ir.Attribute:
    return ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, list(results)))
