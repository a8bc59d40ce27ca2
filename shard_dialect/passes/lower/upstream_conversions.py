"""Upstream's conversions to `scf`, linalg and `arith`, which all targets of `lower` share."""

from __future__ import annotations

from collections.abc import Iterable

from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import walk
from shard_dialect.passes.lower.tosa_zero_points import expand_matmuls

# Deallocation supports structured regions only. Unreachable blocks cannot be lifted to them.
_FROM_BRANCHES = "builtin.module(func.func(canonicalize,lift-cf-to-scf))"
_FROM_TOSA = (
    "builtin.module(func.func("
    "tosa-optional-decompositions,tosa-to-scf,tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor))"
)


def branches_to_scf(module: ir.Operation) -> None:
    """Convert branches between blocks to `scf`, in place."""
    PassManager.parse(_FROM_BRANCHES).run(module)


def tosa_to_linalg(module: ir.Operation) -> None:
    """Convert TOSA to linalg, `tensor` and `arith`, in place."""
    ops = [op for op in walk(module) if op.name.startswith("tosa.")]
    if ops:
        _read_scales_alike(ops)
        expand_matmuls(ops)
        PassManager.parse(_FROM_TOSA).run(module)


def _read_scales_alike(ops: Iterable[ir.Operation]) -> None:
    """Hide a multiplier or shift that alone is constant, as upstream makes it an empty tensor."""
    for op in [each for each in ops if each.name == "tosa.rescale"]:
        scales = list(op.operands)[1:3]
        known = [build.constant_value(scale) is not None for scale in scales]
        if known[0] == known[1]:
            continue
        with ir.InsertionPoint(op), op.location:
            copied = build.allocate_copy(scales[known.index(True)])
        op.operands[1 + known.index(True)] = copied.results[0]
