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
from shard_dialect.rules.factors import Factors, Kind, Places
from shard_dialect.rules.partitioned_op import PartitionedOp
from shard_dialect.rules.query import Query
from shard_dialect.rules.stablehlo.attribute_reading import integer, numbers
from shard_dialect.rules.stablehlo.combiner import can_be_added_up
from shard_dialect.rules.stablehlo.window_attributes import windows_of, write_padding
from shard_dialect.rules.window_shards import WindowDimension, padding_of


def dot_general(query: Query) -> ShardingRule | None:
    """Factors for batch dimensions, for the left and right side, and for contracted dimensions."""
    given = numbers(query.op, "dot_dimension_numbers", "DotDimensionNumbers")
    batch = (given.lhs_batching_dimensions, given.rhs_batching_dimensions)
    summed = (given.lhs_contracting_dimensions, given.rhs_contracting_dimensions)
    return _product(query, batch, summed)


def dot(query: Query) -> ShardingRule | None:
    """Contracts the last dimension of the left side with the first of the right."""
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
    """Factors for batch, windows, groups, input and output features, in this order.

    The groups are the major factor of the batch or of the input's features, and of the output's
    features. Each group has its own kernels, so groups may be split like batches.

    A spatial dimension of the input has two factors: the output's dimension and the kernel's, the
    larger one major, as far as its size allows. If all windows are one element, it has one, which
    passes.
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
        positions: _Factor = (made[c], (a, None), (c,), "permuted", read)
        if along.are_elements:
            positions = (made[c], (a, None), (c,), "passed", None)
        window: _Factor = (right[b], (a, b), (), "whole", None)
        _add_within(factors, left[a], positions, window)
    if groups > 1:
        factors.add(groups, (given.input_feature_dimension, kernels), (of_features,))
    factors.add(right[channels], (given.input_feature_dimension, channels), (), _sum(query.op))
    of_group = made[of_features] // (groups * batch_groups)
    if of_group > 1:
        factors.add(of_group, (None, kernels), (of_features,))
    return factors.rule()


def _add_within(factors: Factors, size: int, *given: _Factor) -> None:
    """Add factors of one dimension of `size`, the larger one major, each as large as fits."""
    room = size
    for full, operands, results, kind, read in sorted(given, key=lambda each: -each[0]):
        taken = min(full, room)
        if taken > 1:
            known = read if taken in (full, size) else None
            factors.add(taken, operands, results, kind, windows=[known])
            room //= taken


_NAMES = {"stride": "window_strides", "dilation": "rhs_dilation", "base": "lhs_dilation"}


def _windows(op: ir.Operation, given: Any, kernel: Shape) -> list[WindowDimension]:
    return windows_of(op, _NAMES, [kernel[dim] for dim in given.kernel_spatial_dimensions])


def partition_convolution(partitioned: PartitionedOp) -> None:
    """Set the number of groups and the padding of a shard.

    The local shapes give the groups. Where a spatial dimension is split, halos hold the padding.
    """
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
    left, right = (partitioned.operand(number).shape for number in (0, 1))
    features = left[given.input_feature_dimension], right[given.kernel_input_feature_dimension]
    batches = left[given.input_batch_dimension], made[given.output_batch_dimension]
    for name, (all_groups, one) in (("feature", features), ("batch", batches)):
        before = op.attributes[f"{name}_group_count"]
        count = all_groups // one if one else before.value
        op.attributes[f"{name}_group_count"] = ir.IntegerAttr.get(before.type, count)
