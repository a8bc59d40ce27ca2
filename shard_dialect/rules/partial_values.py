"""Which operands of an op must be partial for its result to be: the functions of its record.

    add(x, y), both partial sums              the partial sum of x + y
    multiply(x, y), one of them a partial sum the partial sum of x * y
    transpose(x), partial in any way          partial in that way

Each function is asked with the operands that are partial already. It gives all that must be, or
`None` where the result would be something else. `arith` ops have operands of one type, so all or
none of them are partial. Rounding differs as it does with the order of any sum. Narrower floats
would round each summand, so a conversion to them counts only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.model import Reduction, ShardingRule

Numbers = frozenset[int]


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
    """The elements of the first operand, in other places."""
    return query.numbers if query.numbers == {0} else None


def joins(query: PartialQuery) -> Numbers:
    """The elements of all operands."""
    count = len(query.op.operands)
    if query.op.name.startswith("linalg."):
        count -= len(query.op.results)
    return frozenset(range(count))


def chooses(query: PartialQuery) -> Numbers | None:
    """Elements of the second operand or of the third."""
    return frozenset({1, 2}) if query.numbers <= {1, 2} else None


def adds(query: PartialQuery) -> Numbers | None:
    return joins(query) if query.reduction == "sum" else None


def negates(query: PartialQuery) -> Numbers | None:
    return moves(query) if query.reduction == "sum" else None


def scales(query: PartialQuery) -> Numbers | None:
    """A product of two operands is linear in each."""
    is_one = len(query.numbers) == 1 and query.numbers <= {0, 1}
    return query.numbers if is_one and query.reduction == "sum" else None


def multiplies(query: PartialQuery) -> Numbers | None:
    """Elementwise: linear in each operand, and a product of products."""
    return joins(query) if query.reduction == "product" else scales(query)


def multiplies_alike(query: PartialQuery) -> Numbers | None:
    """Elementwise, of operands that are all of one type."""
    return joins(query) if query.reduction == "product" else None


def divides(query: PartialQuery) -> Numbers | None:
    """Floats only: integers are rounded."""
    return negates(query) if _is_float(query.op.operands[0]) else None


def takes_maximum(query: PartialQuery) -> Numbers | None:
    return joins(query) if query.reduction == "max" else None


def takes_minimum(query: PartialQuery) -> Numbers | None:
    return joins(query) if query.reduction == "min" else None


def reduces(query: PartialQuery) -> Numbers | None:
    """Over dimensions, by the same reduction."""
    kinds = {kind for _, kind in query.rule.reductions}
    return moves(query) if kinds == {query.reduction} and len(query.op.results) == 1 else None


def converts(query: PartialQuery) -> Numbers | None:
    """From floats to floats; rounding keeps an order, but no sum."""
    given, made = query.op.operands[0], query.op.results[0]
    if query.reduction == "product" or not (_is_float(given) and _is_float(made)):
        return None
    widens = made.type.element_type.width > given.type.element_type.width
    is_exact = widens or query.reduction != "sum"
    return query.numbers if is_exact or query.narrow else None


def _is_float(value: ir.Value) -> bool:
    return isinstance(value.type.element_type, ir.FloatType)
