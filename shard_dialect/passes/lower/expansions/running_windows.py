"""Expand windows that reach from one end to each element, as of cumulative sums, to one pass.

    stablehlo.reduce_window(%x, 0), windows of n elements, n - 1 elements of padding before them

    sum = 0
    for i in 0 .. n:                    # from the other end where the padding is after
      sum += x[i]
      r[i] = sum

Upstream's conversion would combine each window anew: n² elements instead of n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.model import Reduction
from shard_dialect.ops.stablehlo.attribute_reading import windows_over
from shard_dialect.ops.stablehlo.reduction_rules import combiner
from shard_dialect.passes.lower.expansions import loop_code
from shard_dialect.passes.lower.expansions.loop_code import Values
from shard_dialect.passes.lower.expansions.upstream_workarounds import without_elements
from shard_dialect.passes.lower.wide_accumulation import wide_enough

_SHORT = 16
"""The largest windows that are left to upstream, whose loops are fused with others."""


def reduce_window(op: ir.Operation) -> Sequence[ir.Value]:
    """The reductions of running windows, by loops; of others, the op's own results."""
    running = _Running.of(op)
    return without_elements(op) if running is None else [running.reduced(op)]


@dataclass(frozen=True)
class _Running:
    """The windows along `dim` reach from an element to the first one, or to the last one."""

    reduction: Reduction
    dim: int
    is_to_last: bool

    @classmethod
    def of(cls, op: ir.Operation) -> _Running | None:
        """The windows of the op, if each is running, long, and combined by a known reduction."""
        reduction = combiner(op, 1) if len(op.results) == 1 else None
        if reduction is None or not reductions.is_identity(reduction, op.operands[1]):
            return None
        shape = list(op.operands[0].type.shape)
        along = [(dim, each) for dim, each in enumerate(windows_over(op)) if not each.are_elements]
        if len(along) != 1:
            return None
        ((dim, windows),) = along
        size = shape[dim]
        if size <= _SHORT or not windows.run_over(size):
            return None
        return cls(reduction, dim, windows.high > 0)

    def reduced(self, op: ir.Operation) -> ir.Value:
        """The result: for each element before `dim`, one pass over the elements along it."""
        operand, init = op.operands
        shape, element = list(operand.type.shape), operand.type.element_type
        before, size, after = shape[: self.dim], shape[self.dim], shape[self.dim + 1 :]
        wide = element
        if self.reduction in ("sum", "product"):
            wide = wide_enough({str(element)}, size) or element
        start = build.cast("arith.extf", loop_code.element(init, []), wide)

        def along(outer: Values, made: Values) -> Values:
            so_far = build.create_value(
                "tensor.splat", ir.RankedTensorType.get(after, wide), [start]
            )

            def step(number: ir.Value, now: Values) -> Values:
                at = loop_code.joined("subi", size - 1, number) if self.is_to_last else number

                def combine(inner: Values, now: Values) -> Values:
                    so_far, made = now
                    where = [*outer, at, *inner]
                    new = build.cast("arith.extf", loop_code.element(operand, where), wide)
                    pair = [loop_code.element(so_far, inner), new]
                    if wide == element:
                        (joined,) = loop_code.applied(op, 0, pair)
                    else:
                        joined = reductions.combine(self.reduction, *pair)
                    rounded = build.cast("arith.truncf", joined, element)
                    return [_put(joined, so_far, inner), _put(rounded, made, where)]

                return loop_code.nest(after, combine, now)

            return loop_code.loop(0, size, [so_far, *made], step)[1:]

        into = build.empty(operand.type)
        return loop_code.nest(before, along, [into])[0]


def _put(element: ir.Value, tensor: ir.Value, at: Values) -> ir.Value:
    return build.create_value("tensor.insert", tensor.type, [element, tensor, *at])
