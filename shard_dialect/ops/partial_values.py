"""Partial functions: which operands of an op must be partial so that its result is.

    add(x, y), both partial sums              the partial sum of x + y
    multiply(x, y), one of them a partial sum the partial sum of x * y
    transpose(x), partial by any reduction    partial by that reduction

Each function gets a query with the operands that are already partial. It returns the numbers of all
operands that must be partial, or `None` if the result would not be the partial value. `arith` ops
have operands of one type, so all or none of them are partial. Rounding differs as it does with the
order of any sum. A conversion to narrower floats rounds each summand, and is allowed only with
`narrow`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.model import Reduction, ShardingRule

Numbers = frozenset[int]
"""Numbers of operands."""


@dataclass(frozen=True, slots=True)
class PartialQuery:
    """An op of which the operands at `numbers` are partial, by `reduction`.

    With `narrow` conversions may round each summand.
    """

    op: ir.Operation
    rule: ShardingRule
    numbers: Numbers
    reduction: Reduction
    narrow: bool


PartialFunction = Callable[[PartialQuery], "Numbers | None"]


def moves(query: PartialQuery) -> Numbers | None:
    """For ops that move the elements of their first operand."""
    return query.numbers if query.numbers == {0} else None


def inserts(query: PartialQuery) -> Numbers | None:
    """For ops that put their second operand into, or around, the first one: both."""
    return frozenset({0, 1}) if query.numbers <= {0, 1} else None


def joins(query: PartialQuery) -> Numbers:
    """All operands, without `linalg`'s inits: for ops that join their elements."""
    count = len(query.op.operands)
    if query.op.name.startswith("linalg."):
        count -= len(query.op.results)
    return frozenset(range(count))


def chooses(query: PartialQuery) -> Numbers | None:
    """For selects: the second and the third operand."""
    return frozenset({1, 2}) if query.numbers <= {1, 2} else None


def _joins_by(reduction: Reduction) -> PartialFunction:
    return lambda query: joins(query) if query.reduction == reduction else None


adds = _joins_by("sum")
"""For sums and differences: all operands, if they are partial sums."""
multiplies_alike = _joins_by("product")
"""For elementwise products of operands of one type: all, if they are partial products."""
takes_maximum = _joins_by("max")
"""For maxima: all operands, if they are partial maxima."""
takes_minimum = _joins_by("min")
"""For minima: all operands, if they are partial minima."""


def negates(query: PartialQuery) -> Numbers | None:
    """For negation: the operand, if it is a partial sum."""
    return moves(query) if query.reduction == "sum" else None


def scales(query: PartialQuery) -> Numbers | None:
    """For products: one of the first two operands, since a product is linear in each."""
    is_one = len(query.numbers) == 1 and query.numbers <= {0, 1}
    return query.numbers if is_one and query.reduction == "sum" else None


def multiplies(query: PartialQuery) -> Numbers | None:
    """For elementwise products: as `scales`, or all operands if they are partial products."""
    return joins(query) if query.reduction == "product" else scales(query)


def divides(query: PartialQuery) -> Numbers | None:
    """For divisions: a dividend of floats, since integers would be rounded."""
    return negates(query) if _is_float(query.op.operands[0]) else None


def reduces(query: PartialQuery) -> Numbers | None:
    """For reductions over dimensions: the operand, if it is partial by the same reduction."""
    kinds = {kind for _, kind in query.rule.reductions}
    return moves(query) if kinds == {query.reduction} and len(query.op.results) == 1 else None


def converts(query: PartialQuery) -> Numbers | None:
    """For conversions between floats; rounding preserves maxima and minima, but not sums."""
    source, target = query.op.operands[0], query.op.results[0]
    if query.reduction == "product" or not (_is_float(source) and _is_float(target)):
        return None
    widens = target.type.element_type.width > source.type.element_type.width
    is_exact = widens or query.reduction != "sum"
    return query.numbers if is_exact or query.narrow else None


def _is_float(value: ir.Value) -> bool:
    return isinstance(value.type.element_type, ir.FloatType)
