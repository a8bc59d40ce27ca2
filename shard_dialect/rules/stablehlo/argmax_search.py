"""Reductions that look for the place of the largest element, or the smallest.

values, places = reduce (x, iota) by
  %p = %a > %b or %a is no number
  select(%p, %a, %b), select(%p or %a == %b and %i < %j, %i, %j)
"""

from __future__ import annotations

from typing import Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.scalar_expressions import Term, commuted, made
from shard_dialect.ir.walk import body

_FOUND: dict[Literal["max", "min"], Term] = {"max": ("lt", "b", "a"), "min": ("lt", "a", "b")}
"""Where the first of two elements `a` and `b` is found."""


def search_kind(op: ir.Operation) -> Literal["max", "min"] | None:
    """Whether the larger of two elements is found, or the smaller; the first of equal ones.

    What is no number is found before all that are, as numpy and torch do. `None` for reductions
    that look for nothing.
    """
    if len(op.operands) != 4:
        return None
    element = op.operands[0].type.element_type
    joined = made(body(op), ("a", "i", "b", "j"))
    for kind, is_found in _FOUND.items():
        if joined == _searching(is_found, is_float=isinstance(element, ir.FloatType)):
            return kind
    return None


def _searching(is_found: Term, *, is_float: bool) -> tuple[Term, Term]:
    """What JAX's argmax and argmin make of elements `a` and `b` at `i` and `j`."""
    if is_float:
        is_found = commuted("or", is_found, ("ne", "a", "a"))
    is_earlier = commuted("and", ("eq", "a", "b"), ("lt", "i", "j"))
    return (
        ("select", is_found, "a", "b"),
        ("select", commuted("or", is_found, is_earlier), "i", "j"),
    )
