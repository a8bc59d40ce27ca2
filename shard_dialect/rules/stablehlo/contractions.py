"""StableHLO's products: `dot`, `dot_general`, `convolution`.

    dot_general     ([a, b, d], [d, a, c]) -> ([a, b, c]) reduction={d: sum}
    convolution     ([a, bc, d], [c, d, e]) -> ([a, b, e]) reduction={d: sum} whole={c} permuted={b}
                    with a halo along b, which the windows reach

The sums may be partial, except for i1, whose addition is `or`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shard_dialect.ir.bindings import ir
from shard_dialect.model import Reduction, ShardingRule, Windows
from shard_dialect.model.sharding import Shape
from shard_dialect.rules.factors import FactorDims, Factors, Kind
from shard_dialect.rules.partitioned_op import PartitionedOp
from shard_dialect.rules.rule_query import Query
from shard_dialect.rules.stablehlo.attribute_reading import integer, numbers
from shard_dialect.rules.stablehlo.combiner import is_additive
from shard_dialect.rules.stablehlo.window_attributes import windows_of, write_padding
from shard_dialect.rules.window_shards import WindowDimension, padding_of


def dot_general(query: Query) -> ShardingRule | None:
    """Factors for batch dimensions, for the left and right side, and for contracted dimensions."""
    dims = numbers(query.op, "dot_dimension_numbers", "DotDimensionNumbers")
    batch = (dims.lhs_batching_dimensions, dims.rhs_batching_dimensions)
    summed = (dims.lhs_contracting_dimensions, dims.rhs_contracting_dimensions)
    return _product(query, batch, summed)


def dot(query: Query) -> ShardingRule | None:
    """Contracts the last dimension of the left side with the first of the right."""
    left = query.operands[0]
    return _product(query, ([], []), ([len(left or ()) - 1], [0]))


_Pairs = tuple[Sequence[int], Sequence[int]]


def _product(query: Query, batch: _Pairs, summed: _Pairs) -> ShardingRule | None:
    factors = Factors(query)
    left, right = factors.operands
    result_dims = iter(range(len(factors.results[0])))
    for a, b in zip(*batch, strict=True):
        factors.add(left[a], (a, b), (next(result_dims),))
    for dim, size in enumerate(left):
        if dim not in (*batch[0], *summed[0]):
            factors.add(size, (dim, None), (next(result_dims),))
    for dim, size in enumerate(right):
        if dim not in (*batch[1], *summed[1]):
            factors.add(size, (None, dim), (next(result_dims),))
    for a, b in zip(*summed, strict=True):
        factors.add(left[a], (a, b), (), _sum(query.op))
    return factors.rule()


def _sum(op: ir.Operation) -> Kind:
    return "sum" if is_additive(op.results[0].type.element_type) else "need_replication"


_Factor = tuple[int, FactorDims, FactorDims, Kind, Windows | None]


def convolution(query: Query) -> ShardingRule | None:
    """Factors for batch, windows, groups, input and output features, in this order.

    The groups are the major factor of the batch or of the input's features, and of the output's
    features. Each group has its own kernels, so groups may be split like batches.

    A spatial dimension of the input has two factors: the output's dimension and the kernel's, the
    larger one major, as far as its size allows. If all windows are one element, it has one, which
    passes.
    """
    factors = Factors(query)
    (left, right), result = factors.operands, factors.results[0]
    dims = numbers(query.op, "dimension_numbers", "ConvDimensionNumbers")
    of_batch, of_features = dims.output_batch_dimension, dims.output_feature_dimension
    channels, kernels = dims.kernel_input_feature_dimension, dims.kernel_output_feature_dimension
    groups = integer(query.op, "feature_group_count")
    batch_groups = integer(query.op, "batch_group_count")
    if batch_groups > 1:
        factors.add(batch_groups, (dims.input_batch_dimension, kernels), (of_features,))
    factors.add(result[of_batch], (dims.input_batch_dimension,), (of_batch,))
    spatial = zip(
        dims.input_spatial_dimensions,
        dims.kernel_spatial_dimensions,
        dims.output_spatial_dimensions,
        strict=True,
    )
    element = query.op.operands[0].type.element_type
    fill: Reduction | None = "sum" if is_additive(element) else None
    for (a, b, c), along in zip(spatial, _windows(query.op, dims, right), strict=True):
        read = along.over(left[a], result[c], fill)
        positions: _Factor = (result[c], (a, None), (c,), "permuted", read)
        if along.are_elements:
            positions = (result[c], (a, None), (c,), "passed", None)
        window: _Factor = (right[b], (a, b), (), "need_replication", None)
        _add_within(factors, left[a], positions, window)
    if groups > 1:
        factors.add(groups, (dims.input_feature_dimension, kernels), (of_features,))
    factors.add(right[channels], (dims.input_feature_dimension, channels), (), _sum(query.op))
    of_group = result[of_features] // (groups * batch_groups)
    if of_group > 1:
        factors.add(of_group, (None, kernels), (of_features,))
    return factors.rule()


def _add_within(factors: Factors, size: int, *factors_of_dim: _Factor) -> None:
    """Add factors of one dimension of `size`, the larger one major, each as large as fits."""
    room = size
    for full, operands, results, kind, read in sorted(factors_of_dim, key=lambda each: -each[0]):
        size_here = min(full, room)
        if size_here > 1:
            known = read if size_here in (full, size) else None
            factors.add(size_here, operands, results, kind, windows=[known])
            room //= size_here


_NAMES = {"stride": "window_strides", "dilation": "rhs_dilation", "base": "lhs_dilation"}


def _windows(op: ir.Operation, dims: Any, kernel: Shape) -> list[WindowDimension]:
    return windows_of(op, _NAMES, [kernel[dim] for dim in dims.kernel_spatial_dimensions])


def partition_convolution(partitioned: PartitionedOp) -> None:
    """Set the number of groups and the padding of a shard.

    The local shapes give the groups. Where a spatial dimension is split, halos hold the padding.
    """
    op, result_shape = partitioned.op, partitioned.result.shape
    numbers_read = numbers(op, "dimension_numbers", "ConvDimensionNumbers")
    dims = zip(
        numbers_read.input_spatial_dimensions,
        _windows(op, numbers_read, partitioned.operand(1).global_shape),
        strict=True,
    )
    padding = [padding_of(partitioned, 0, dim, (along.low, along.high)) for dim, along in dims]
    if padding:
        write_padding(op, padding)
    left, right = (partitioned.operand(number).shape for number in (0, 1))
    features = (
        left[numbers_read.input_feature_dimension],
        right[numbers_read.kernel_input_feature_dimension],
    )
    batches = (
        left[numbers_read.input_batch_dimension],
        result_shape[numbers_read.output_batch_dimension],
    )
    for name, (all_groups, one) in (("feature", features), ("batch", batches)):
        before = op.attributes[f"{name}_group_count"]
        count = all_groups // one if one else before.value
        op.attributes[f"{name}_group_count"] = ir.IntegerAttr.get(before.type, count)
