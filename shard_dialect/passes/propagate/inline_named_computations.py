"""Inline named computations, so that shardings propagate through them.

%1 = scf.execute_region -> tensor<4xf32> no_inline {       %0 = math.tanh %x
  %0 = math.tanh %x                                        %1 = "mesh.annotate"(%0) ...
  scf.yield %0
} {mesh.named_computation = "f", mesh.shardings = [...]}
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate
from shard_dialect.ir.mesh.attributes import NAMED, SHARDINGS
from shard_dialect.ir.walk import body, operations, walk


def inline_named(function: ir.Operation) -> None:
    """Replace each named computation in `function` by the ops of its body, in place.

    The shardings of its results become annotation ops.
    """
    for op in reversed(walk(function)):  # inner ones first
        if op.name == "scf.execute_region" and NAMED in op.attributes:
            _inline(op)


def _inline(op: ir.Operation) -> None:
    *inside, terminator = operations(body(op))
    yielded = list(terminator.operands)
    for each in inside:
        each.move_before(op)
    shardings = list(op.attributes[SHARDINGS]) if SHARDINGS in op.attributes else []
    if len(shardings) != len(op.results):  # a pass of MLIR has dropped results
        shardings = []
    with ir.InsertionPoint(op), op.location:
        for number, sharding in enumerate(shardings):
            is_tensor = isinstance(yielded[number].type, ir.RankedTensorType)
            if is_tensor and not isinstance(sharding, ir.UnitAttr):
                yielded[number] = annotate(yielded[number], sharding, as_result=False)
    for result, value in zip(op.results, yielded, strict=True):
        result.replace_all_uses_with(value)
    op.erase()
