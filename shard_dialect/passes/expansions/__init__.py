"""StableHLO's ops that upstream's conversion leaves as they are, as loops and simpler ops.

Part of `lower`. Each module has functions that write, at the current insertion point, what an op's
results are; they are the op's own where it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import walk
from shard_dialect.passes.expansions import batch_norm, plain
from shard_dialect.passes.expansions.fft import fft
from shard_dialect.passes.expansions.indexing import gather, scatter
from shard_dialect.passes.expansions.matrices import cholesky, triangular_solve
from shard_dialect.passes.expansions.scalars import compute_elements
from shard_dialect.passes.expansions.select_and_scatter import select_and_scatter
from shard_dialect.passes.expansions.sort import sort

__all__ = ["compute_elements", "expand_stablehlo"]

_EXPAND: dict[str, Callable[[ir.Operation], Sequence[ir.Value]]] = {
    "stablehlo.add": plain.add,
    "stablehlo.batch_norm_grad": batch_norm.grad,
    "stablehlo.batch_norm_inference": batch_norm.inference,
    "stablehlo.batch_norm_training": batch_norm.training,
    "stablehlo.cholesky": cholesky,
    "stablehlo.dynamic_slice": plain.at_dynamic_place,
    "stablehlo.dynamic_update_slice": plain.at_dynamic_place,
    "stablehlo.fft": fft,
    "stablehlo.gather": gather,
    "stablehlo.reduce": plain.reduce,
    "stablehlo.scatter": scatter,
    "stablehlo.select_and_scatter": select_and_scatter,
    "stablehlo.sort": sort,
    "stablehlo.triangular_solve": triangular_solve,
}


def expand_stablehlo(module: ir.Operation) -> None:
    """Replace the ops of the table."""
    found = [op for op in walk(module) if op.name in _EXPAND]
    if found:
        for dialect in ("arith", "complex", "math", "scf", "tensor"):
            ir.Context.current.dialects[dialect]  # loads it
    for op in reversed(found):
        with ir.InsertionPoint(op), op.location:
            values = _EXPAND[op.name](op)
        if list(values) == list(op.results):  # upstream's conversion takes it
            continue
        for old, new in zip(op.results, values, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
