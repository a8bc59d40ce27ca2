"""Reductions that find the index of the largest element, or of the smallest.

values, places = reduce (x, iota) by
  %p = %a > %b or %a is no number
  select(%p, %a, %b), select(%p or %a == %b and %i < %j, %i, %j)
"""

from __future__ import annotations

from typing import Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.scalar_expressions import Term, commuted, yielded_terms
from shard_dialect.ir.walk import body

_SMALLER_INDEX: dict[Literal["max", "min"], Term] = {
    "max": ("lt", "b", "a"),
    "min": ("lt", "a", "b"),
}
"""The condition for `a`, of two elements `a` and `b`, to be found."""


def search_kind(op: ir.Operation) -> Literal["max", "min"] | None:
    """Whether the reduction finds the first largest element, or the first smallest.

    NaN precedes all numbers, as in numpy and torch. `None` for other reductions.
    """
    if len(op.operands) != 4:
        return None
    element = op.operands[0].type.element_type
    joined = yielded_terms(body(op), ("a", "i", "b", "j"))
    for kind, is_found in _SMALLER_INDEX.items():
        if joined == _searching(is_found, is_float=isinstance(element, ir.FloatType)):
            return kind
    return None


def _searching(is_found: Term, *, is_float: bool) -> tuple[Term, Term]:
    """What JAX's argmax or argmin computes from elements `a` and `b` at indices `i` and `j`."""
    if is_float:
        is_found = commuted("or", is_found, ("ne", "a", "a"))
    is_earlier = commuted("and", ("eq", "a", "b"), ("lt", "i", "j"))
    return (
        ("select", is_found, "a", "b"),
        ("select", commuted("or", is_found, is_earlier), "i", "j"),
    )
