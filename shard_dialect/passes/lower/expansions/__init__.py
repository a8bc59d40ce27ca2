"""Expand ops, most of StableHLO, that upstream converts wrongly or not at all. A step of `lower`.

Each module has functions that create the expansion of an op at the insertion point, and return the
values of its results; these are the op's own if it stays. Some run before upstream's conversion,
which then converts the ops that they create. Others run after it, and create loops on buffers for
the ops that it left, whose regions it has converted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import walk
from shard_dialect.passes.lower.expansions import (
    batch_norm,
    gather_scatter_loops,
    select_and_scatter,
    upstream_workarounds,
)
from shard_dialect.passes.lower.expansions.fft import fft
from shard_dialect.passes.lower.expansions.matrix_decompositions import cholesky, triangular_solve
from shard_dialect.passes.lower.expansions.scalars_from_tensors import compute_elements
from shard_dialect.passes.lower.expansions.sort import sort
from shard_dialect.rules.op_table import RECORDS

_Expansion = Callable[[ir.Operation], Sequence[ir.Value]]
_TO_OTHERS: dict[str, _Expansion] = {
    "bufferization.materialize_in_destination": upstream_workarounds.materialize,
    "stablehlo.add": upstream_workarounds.add,
    "stablehlo.batch_norm_grad": batch_norm.grad,
    "stablehlo.batch_norm_inference": batch_norm.inference,
    "stablehlo.batch_norm_training": batch_norm.training,
    "stablehlo.concatenate": upstream_workarounds.concat,
    "stablehlo.convolution": upstream_workarounds.widen_unsigned,
    "stablehlo.dot": upstream_workarounds.widen_unsigned,
    "stablehlo.dot_general": upstream_workarounds.widen_unsigned,
    "stablehlo.dynamic_slice": gather_scatter_loops.signed_starts,
    "stablehlo.dynamic_update_slice": gather_scatter_loops.signed_starts,
    "stablehlo.gather": gather_scatter_loops.gather,
    "stablehlo.reduce": upstream_workarounds.reduce,
    "stablehlo.scatter": gather_scatter_loops.signed_starts,
    "stablehlo.select_and_scatter": select_and_scatter.keep,
    "stablehlo.slice": upstream_workarounds.slice_,
    "tensor.concat": upstream_workarounds.concat,
}
_TO_LOOPS: dict[str, _Expansion] = {
    "stablehlo.cholesky": cholesky,
    "stablehlo.fft": fft,
    "stablehlo.scatter": gather_scatter_loops.scatter,
    "stablehlo.select_and_scatter": select_and_scatter.select_and_scatter,
    "stablehlo.sort": sort,
    "stablehlo.triangular_solve": triangular_solve,
}


def to_other_ops(module: ir.Operation) -> None:
    """Expand to other ops, before upstream's conversion; users' own ops by their records."""
    _expand(module, {**_TO_OTHERS, **_registered()})


def lower_registered(module: ir.Operation) -> None:
    """Expand users' own ops by their records."""
    _expand(module, _registered())


def _registered() -> dict[str, _Expansion]:
    return {name: each.lowering for name, each in RECORDS.items() if each.lowering}


def to_loops(module: ir.Operation) -> None:
    """Expand to loops, right before bufferization, which must see what the loops read.

    The passes before that would fold a buffer that loops fill into the op that reads it.
    """
    _expand(module, _TO_LOOPS)
    compute_elements(module)


def _expand(module: ir.Operation, table: Mapping[str, _Expansion]) -> None:
    ops = [op for op in walk(module) if op.name in table]
    if ops:
        for dialect in ("arith", "bufferization", "complex", "linalg", "math", "memref", "scf"):
            ir.Context.current.dialects[dialect]  # loads it
        ir.Context.current.dialects["tensor"]
    for op in reversed(ops):
        with ir.InsertionPoint(op), op.location:
            values = table[op.name](op)
        if list(values) == list(op.results):
            continue
        for old, new in zip(op.results, values, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
