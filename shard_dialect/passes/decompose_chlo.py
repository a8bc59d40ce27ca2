"""Write CHLO's ops as StableHLO's, by StableHLO's own pass.

    %0 = chlo.erf %x        a quotient of polynomials of %x, clamped

Importing keeps CHLO's elementwise functions, which have records: propagated and partitioned they
are one op, of which XLA has code of its own. What runs elsewhere is decomposed when it is lowered.
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.ir.bindings import ir, know_stablehlo_passes, run_upstream
from shard_dialect.ir.building.build import create, replace_op
from shard_dialect.ir.mesh.annotation_ops import annotate_results_after
from shard_dialect.ir.walk import walk
from shard_dialect.ops.op_table import record_of
from shard_dialect.passes.framework.base import needs
from shard_dialect.passes.lower.boundary import NOT_LOWERED

_DIALECT = "chlo."
_DECOMPOSED = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
_STAND_IN, _TARGET = "stablehlo.custom_call", "call_target_name"


@needs(ops=(_DIALECT,), forms=NOT_LOWERED)
def decompose_chlo(module: ir.Operation) -> None:
    """Replace all ops of CHLO by StableHLO's."""
    decompose_where(module, lambda _: True)


def keep_functions(module: ir.Operation) -> None:
    """Replace the ops of CHLO that have no record."""
    decompose_where(module, lambda op: record_of(op) is None)


def decompose_where(module: ir.Operation, chosen: Callable[[ir.Operation], bool]) -> None:
    """Replace the ops of CHLO that are `chosen`.

    StableHLO's pass replaces each that it finds; so calls stand for the others meanwhile.
    """
    ops = [op for op in walk(module) if op.name.startswith(_DIALECT)]
    are_chosen = [chosen(op) for op in ops]
    if not any(are_chosen):
        return
    for op, is_chosen in zip(ops, are_chosen, strict=True):
        if is_chosen:
            annotate_results_after(op, lambda _: True)
    kept = [op for op, is_chosen in zip(ops, are_chosen, strict=True) if not is_chosen]
    names = [op.name for op in kept]
    stand_ins = [_replaced(op, _STAND_IN, {_TARGET: ir.StringAttr.get(op.name)}) for op in kept]
    know_stablehlo_passes()
    run_upstream(_DECOMPOSED, module)
    for name, stand_in in zip(names, stand_ins, strict=True):
        del stand_in.attributes[_TARGET]
        _replaced(stand_in, name)


def _replaced(
    op: ir.Operation, name: str, more: dict[str, ir.Attribute] | None = None
) -> ir.Operation:
    """An op called `name` in the place of another, with its attributes and `more`."""
    attributes = {each: op.attributes[each] for each in op.attributes} | (more or {})
    types = [each.type for each in op.results]
    with ir.InsertionPoint(op), op.location:
        made = create(name, types, list(op.operands), attributes)
    replace_op(op, *made.results)
    return made
