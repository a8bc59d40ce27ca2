"""The scalar code of a region as a normalized term, so that equal code gives equal terms.

%p = stablehlo.compare GT, %a, %b
%q = stablehlo.compare NE, %a, %a          ("or", ("lt", "b", "a"), ("ne", "a", "a"))
%r = stablehlo.or %q, %p
"""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, isnan

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.walk import operations

Term = str | tuple["Term", ...]
UNKNOWN = "?"
"""The term of results of other ops, which no term to be recognized contains."""

_SWAPPED = {"GT": "lt", "GE": "le"}
_JOINED = {"stablehlo.or": ("or", "true", "false"), "stablehlo.and": ("and", "false", "true")}
"""For each op its name in terms, the operand that decides the result, and the identity."""
_LARGEST = 1000
"""A size above that of any term to be recognized. Terms repeat a value at each use, so they could
grow exponentially."""


def yielded_terms(block: ir.Block, names: Sequence[str]) -> tuple[Term, ...]:
    """The terms of the operands of a block's last op; `names` are the terms of its arguments."""
    terms: dict[ir.Value, Term] = dict(zip(block.arguments, names, strict=True))
    *inside, last = operations(block)
    for op in inside:
        terms[op.results[0]] = _term_of_op(
            op, [_term_of_value(each, terms) for each in op.operands]
        )
    return tuple(_term_of_value(each, terms) for each in last.operands)


def _term_of_value(value: ir.Value, terms: dict[ir.Value, Term]) -> Term:
    constant = build.splat_value(value)
    return terms.get(value, UNKNOWN) if constant is None else _number(constant)


def _term_of_op(op: ir.Operation, operands: Sequence[Term]) -> Term:
    if UNKNOWN in operands or sum(map(_size, operands)) > _LARGEST:
        return UNKNOWN
    if op.name == "stablehlo.compare":
        return _compare(op, *operands)
    if op.name == "stablehlo.select":
        return ("select", *operands)
    if op.name not in _JOINED:
        return UNKNOWN
    name, decides, never = _JOINED[op.name]
    if decides in operands:
        return decides
    left = [each for each in operands if each != never]
    return commuted(name, *left) if len(left) == 2 else [*left, never][0]


def _size(term: Term) -> int:
    return 1 if isinstance(term, str) else 1 + sum(map(_size, term))


def commuted(name: str, a: Term, b: Term) -> Term:
    """The term of a commutative op: its operands are sorted."""
    return (name, *sorted((a, b), key=str))


def _compare(op: ir.Operation, a: Term, b: Term) -> Term:
    direction = hlo.direction_of(op)
    element = op.operands[0].type.element_type
    is_float = isinstance(element, ir.FloatType)
    has_no_sign = str(element) == "i1" or reductions.is_unsigned(element)
    usual = "FLOAT" if is_float else "UNSIGNED" if has_no_sign else "SIGNED"
    order = "NOTYPE"
    if "compare_type" in op.attributes:
        order = hlo.enumerator(op.attributes["compare_type"])
    prefix = "" if order in ("NOTYPE", usual) else f"{order.lower()}_"
    if direction in ("EQ", "NE"):
        if a == b and not is_float:
            return "true" if direction == "EQ" else "false"
        return commuted(prefix + direction.lower(), a, b)
    if direction in _SWAPPED:
        return (prefix + _SWAPPED[direction], b, a)
    return (prefix + direction.lower(), a, b)


def _number(constant: ir.Attribute) -> str:
    value = constant.value
    if isinstance(value, float) and isnan(value):
        return "nan" if copysign(1, value) > 0 else "-nan"
    return str(bool(value)).lower() if str(constant.type) == "i1" else str(value)
