"""Expand `stablehlo.batch_norm_*` to the formulas in its specification."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.rules.stablehlo.attribute_reading import integer
from shard_dialect.rules.stablehlo.index_arithmetic import broadcast, joined, repeated


class _Features:
    """Reductions and broadcasts over the elements of each feature of a tensor."""

    def __init__(self, op: ir.Operation) -> None:
        self.full_type = op.operands[0].type
        self.feature = integer(op, "feature_index")
        self.others = [dim for dim in range(self.full_type.rank) if dim != self.feature]
        self.vector = build.resized(self.full_type, [self.full_type.shape[self.feature]])
        self.epsilon = repeated(op.attributes["epsilon"].value, self.full_type)
        self.count = prod(self.full_type.shape[dim] for dim in self.others)

    def wide(self, vector: ir.Value) -> ir.Value:
        """Broadcast each feature's number to all of its elements."""
        return broadcast(vector, self.full_type.shape, [self.feature])

    def sum(self, value: ir.Value) -> ir.Value:
        """The sum of each feature's elements."""
        if not self.others:
            return value
        scalar = build.resized(self.full_type, [])
        along = {"dimensions": ir.DenseI64ArrayAttr.get(self.others)}
        zero = repeated(0, scalar)
        reduced = build.create("stablehlo.reduce", [self.vector], [value, zero], along, regions=1)
        block = reduced.regions[0].blocks.append(scalar, scalar, arg_locs=[reduced.location] * 2)
        with ir.InsertionPoint(block):
            total = joined(block.arguments[0], block.arguments[1], "add")
            build.create("stablehlo.return", [], [total])
        return reduced.results[0]

    def mean(self, value: ir.Value) -> ir.Value:
        """The mean of each feature's elements."""
        return joined(self.sum(value), repeated(self.count, self.vector), "divide")

    def deviation(self, variance: ir.Value) -> ir.Value:
        """The square root of the variance plus epsilon, broadcast."""
        shifted = joined(self.wide(variance), self.epsilon, "add")
        return build.create("stablehlo.sqrt", [self.full_type], [shifted]).results[0]


def inference(op: ir.Operation) -> Sequence[ir.Value]:
    """The normalized operand of `stablehlo.batch_norm_inference`."""
    return [_normalized(_Features(op), *op.operands)]


def training(op: ir.Operation) -> Sequence[ir.Value]:
    """The normalized operand, the mean and the variance of `stablehlo.batch_norm_training`."""
    features = _Features(op)
    operand, scale, offset = op.operands
    mean = features.mean(operand)
    centered = joined(operand, features.wide(mean), "subtract")
    variance = features.mean(joined(centered, centered, "multiply"))
    return [_normalized(features, operand, scale, offset, mean, variance), mean, variance]


def _normalized(
    features: _Features,
    operand: ir.Value,
    scale: ir.Value,
    offset: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
) -> ir.Value:
    centered = joined(operand, features.wide(mean), "subtract")
    normal = joined(centered, features.deviation(variance), "divide")
    scaled = joined(features.wide(scale), normal, "multiply")
    return joined(scaled, features.wide(offset), "add")


def grad(op: ir.Operation) -> Sequence[ir.Value]:
    """The gradients of the operand, the scale and the offset."""
    features = _Features(op)
    operand, scale, mean, variance, gradient = op.operands
    centered = joined(operand, features.wide(mean), "subtract")
    deviation = features.deviation(variance)
    normal = joined(centered, deviation, "divide")
    tilted = joined(gradient, normal, "multiply")
    even, tilt = (features.wide(features.mean(each)) for each in (gradient, tilted))
    rest = joined(joined(gradient, even, "subtract"), joined(tilt, normal, "multiply"), "subtract")
    factor = joined(features.wide(scale), deviation, "divide")
    return [joined(factor, rest, "multiply"), features.sum(tilted), features.sum(gradient)]
