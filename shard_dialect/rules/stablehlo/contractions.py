"""StableHLO's products: `dot`, `dot_general`, `convolution`.

    dot_general     ([a, b, d], [d, a, c]) -> ([a, b, c]) reduction={d: sum}
    convolution     ([a, bc, d], [c, d, e]) -> ([a, b, e]) reduction={d: sum} whole={c} permuted={b}
                    with a halo along b, as far as windows go

Sums in parts are the sum, but of i1, whose sum is or.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shard_dialect.ir.bindings import ir
from shard_dialect.model import Reduction, ShardingRule, Windows
from shard_dialect.model.sharding import Shape
from shard_dialect.rules.factors import Factors, Kind, Places
from shard_dialect.rules.partitioning import PartitionedOp
from shard_dialect.rules.query import Query
from shard_dialect.rules.stablehlo.attribute_reading import integer, numbers
from shard_dialect.rules.stablehlo.combiner import can_be_added_up
from shard_dialect.rules.stablehlo.window_attributes import windows_of, write_padding
from shard_dialect.rules.window_shards import WindowDimension, padding_of


def dot_general(query: Query) -> ShardingRule | None:
    """Batch dimensions, those of the left side, those of the right; contracted ones are summed."""
    given = numbers(query.op, "dot_dimension_numbers", "DotDimensionNumbers")
    batch = (given.lhs_batching_dimensions, given.rhs_batching_dimensions)
    summed = (given.lhs_contracting_dimensions, given.rhs_contracting_dimensions)
    return _product(query, batch, summed)


def dot(query: Query) -> ShardingRule | None:
    """Of vectors and matrices: the last dimension of the left with the first of the right."""
    left = query.operands[0]
    return _product(query, ([], []), ([len(left or ()) - 1], [0]))


_Pairs = tuple[Sequence[int], Sequence[int]]


def _product(query: Query, batch: _Pairs, summed: _Pairs) -> ShardingRule | None:
    factors = Factors(query)
    left, right = factors.operands
    made = iter(range(len(factors.results[0])))
    for a, b in zip(*batch, strict=True):
        factors.add(left[a], (a, b), (next(made),))
    for dim, size in enumerate(left):
        if dim not in (*batch[0], *summed[0]):
            factors.add(size, (dim, None), (next(made),))
    for dim, size in enumerate(right):
        if dim not in (*batch[1], *summed[1]):
            factors.add(size, (None, dim), (next(made),))
    for a, b in zip(*summed, strict=True):
        factors.add(left[a], (a, b), (), _sum(query.op))
    return factors.rule()


def _sum(op: ir.Operation) -> Kind:
    return "sum" if can_be_added_up(op.results[0].type.element_type) else "whole"


_Factor = tuple[int, Places, Places, Kind, Windows | None]


def convolution(query: Query) -> ShardingRule | None:
    """Batch, window, groups, input and output features, in this order.

    A group is the major part of the dimensions it cuts: of the batch or the input's features, and
    of the output's features. Both have kernels of their own, so groups split as batches do.

    An input dimension that the window goes over is made of the place of the window and the place in
    it, the larger one first, as far as its size goes. Where all windows are one element they pass.
    """
    factors = Factors(query)
    (left, right), made = factors.operands, factors.results[0]
    given = numbers(query.op, "dimension_numbers", "ConvDimensionNumbers")
    of_batch, of_features = given.output_batch_dimension, given.output_feature_dimension
    channels, kernels = given.kernel_input_feature_dimension, given.kernel_output_feature_dimension
    groups = integer(query.op, "feature_group_count")
    batch_groups = integer(query.op, "batch_group_count")
    if batch_groups > 1:
        factors.add(batch_groups, (given.input_batch_dimension, kernels), (of_features,))
    factors.add(made[of_batch], (given.input_batch_dimension,), (of_batch,))
    spatial = zip(
        given.input_spatial_dimensions,
        given.kernel_spatial_dimensions,
        given.output_spatial_dimensions,
        strict=True,
    )
    element = query.op.operands[0].type.element_type
    fill: Reduction | None = "sum" if can_be_added_up(element) else None
    for (a, b, c), along in zip(spatial, _windows(query.op, given, right), strict=True):
        read = along.over(left[a], made[c], fill)
        places: _Factor = (made[c], (a, None), (c,), "permuted", read)
        if along.are_elements:
            places = (made[c], (a, None), (c,), "passed", None)
        window: _Factor = (right[b], (a, b), (), "whole", None)
        _add_within(factors, left[a], places, window)
    if groups > 1:
        factors.add(groups, (given.input_feature_dimension, kernels), (of_features,))
    factors.add(right[channels], (given.input_feature_dimension, channels), (), _sum(query.op))
    of_group = made[of_features] // (groups * batch_groups)
    if of_group > 1:
        factors.add(of_group, (None, kernels), (of_features,))
    return factors.rule()


def _add_within(factors: Factors, size: int, *given: _Factor) -> None:
    """Factors of one dimension of `size`, the larger first, each as large as there is room."""
    room = size
    for wanted, operands, results, kind, read in sorted(given, key=lambda each: -each[0]):
        taken = min(wanted, room)
        if taken > 1:
            known = read if taken in (wanted, size) else None
            factors.add(taken, operands, results, kind, windows=[known])
            room //= taken


_NAMES = {"stride": "window_strides", "dilation": "rhs_dilation", "base": "lhs_dilation"}


def _windows(op: ir.Operation, given: Any, kernel: Shape) -> list[WindowDimension]:
    return windows_of(op, _NAMES, [kernel[dim] for dim in given.kernel_spatial_dimensions])


def partition_convolution(partitioned: PartitionedOp) -> None:
    """The groups of this shard, which its shapes tell; what is padded of it is in its halos."""
    op, made = partitioned.op, partitioned.result.shape
    given = numbers(op, "dimension_numbers", "ConvDimensionNumbers")
    dims = zip(
        given.input_spatial_dimensions,
        _windows(op, given, partitioned.operand(1).whole),
        strict=True,
    )
    padding = [padding_of(partitioned, 0, dim, (along.low, along.high)) for dim, along in dims]
    if padding:
        write_padding(op, padding)
    left, right = (partitioned.operand(place).shape for place in (0, 1))
    features = left[given.input_feature_dimension], right[given.kernel_input_feature_dimension]
    batches = left[given.input_batch_dimension], made[given.output_batch_dimension]
    for name, (all_groups, one) in (("feature", features), ("batch", batches)):
        before = op.attributes[f"{name}_group_count"]
        count = all_groups // one if one else before.value
        op.attributes[f"{name}_group_count"] = ir.IntegerAttr.get(before.type, count)
