"""Move reshapes that merge dimensions behind elementwise ops.

    %1 = stablehlo.reshape %0 : (tensor<8x4x16xf32>) -> tensor<32x16xf32>
    %2 = stablehlo.tanh %1 : tensor<32x16xf32>
    %3 = stablehlo.reshape %2 : (tensor<32x16xf32>) -> tensor<8x4x16xf32>

becomes

    %2 = stablehlo.tanh %0 : tensor<8x4x16xf32>

If %0 is split in the dimension of size 4 and not in that of size 8, a shard of %1 is strided, which
no sharding can express. An elementwise op computes the same on any shape, so the reshape moves
behind the op. If the op is followed by the inverse reshape, both reshapes are removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.no_grid import declares_no_grid
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.propagate.merged_dims import (
    RESHAPE,
    apart_before_merge,
    compute_before_merge,
    is_annotated,
    is_elementwise,
    merged_sizes,
    source_of_reshape,
)


@dataclass(frozen=True)
class SinkReshapes(Pass):
    """Move reshapes that merge dimensions behind elementwise ops, and drop those that undo them."""

    name = "sink-reshapes"

    def rewrite(self, module: ir.Operation) -> None:
        """Sink the reshapes of the functions in the annotated form."""
        if declares_no_grid(module):
            return
        for function in functions_of(module):
            if form_of(function) == "annotated":
                _sink(function)


def _sink(function: ir.Operation) -> None:
    for op in walk(function):
        if op.name == RESHAPE:
            remove_inverse(op)
        else:
            _compute_before(op)
    erase_unused_reshapes(function)


def _compute_before(op: ir.Operation) -> None:
    for number, operand in enumerate(op.operands):
        source = source_of_reshape(operand)
        sizes = merged_sizes(source, operand) if source is not None else ()
        if sizes and is_elementwise(op):
            apart = apart_before_merge(op, number, sizes)
            if apart is not None:
                compute_before_merge(op, apart)
            return


def remove_inverse(op: ir.Operation) -> None:
    """Replace a reshape that undoes the reshape of its operand by the source of the latter."""
    source = None if is_annotated(op) else source_of_reshape(op.operands[0])
    if source is not None and source.type == op.results[0].type:
        op.results[0].replace_all_uses_with(source)


def erase_unused_reshapes(function: ir.Operation) -> None:
    """Erase the reshapes whose results nothing uses."""
    for op in reversed(walk(function)):
        if op.name == RESHAPE and not any(True for _ in op.results[0].uses):
            op.erase()
