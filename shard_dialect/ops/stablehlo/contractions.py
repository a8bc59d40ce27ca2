"""StableHLO's products: `dot`, `dot_general`, `convolution`.

    dot_general     ([a, b, d], [d, a, c]) -> ([a, b, c]) reduction={d: sum}
    convolution     ([a, bc, d], [c, d, e]) -> ([a, b, e]) reduction={d: sum} whole={c} permuted={b}
                    with a halo along b, which the windows reach
                    ([a, cb, d], [c, d, e]) -> ([a, b, e]) reduction={c: sum, d: sum} permuted={b}
                    with a halo along c, where windows are many elements and results are few, as in
                    the gradient of a kernel

The sums may be partial, except for i1, whose addition is `or`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.model import Reduction, ShardingRule, Windows
from shard_dialect.model.sharding import Shape
from shard_dialect.ops.factors import FactorDims, Factors, Kind, Query
from shard_dialect.ops.op_record import OpRecord
from shard_dialect.ops.operations import product
from shard_dialect.ops.padding import identities
from shard_dialect.ops.partial_values import scales
from shard_dialect.ops.partitioned_op import PartitionedOp
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.stablehlo import arithmetic
from shard_dialect.ops.stablehlo.attribute_reading import (
    integer,
    numbers,
    windows_of,
    write_padding,
)
from shard_dialect.ops.stablehlo.facets import expansion, python, sample
from shard_dialect.ops.stablehlo.reduction_rules import is_additive
from shard_dialect.ops.window_shards import WindowDimension, padding_of


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
    passes; so has one that `_spatial_kind` knows to be a product's.

    Each device may have a part of the kernel's elements, and adds up what it reads in windows, one
    for each of them: in steps of the dilation, as long as the output is in steps of the stride.
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
    products = prod(result) * prod(right) // max(1, right[kernels])
    spatial = zip(
        dims.input_spatial_dimensions,
        dims.kernel_spatial_dimensions,
        dims.output_spatial_dimensions,
        strict=True,
    )
    element = query.op.operands[0].type.element_type
    fill: Reduction | None = "sum" if is_additive(element) else None
    windows = zip(_windows(query.op, dims, right), _reversed(query.op), strict=True)
    for (a, b, c), (along, is_reversed) in zip(spatial, windows, strict=True):
        kind = _spatial_kind(along, left[a], result[c], is_reversed=is_reversed)
        if kind:
            factors.add(result[c], (a if kind == "batch" else None, b), (c,))
            products //= right[b]
            continue
        read = along.over(left[a], result[c], fill)
        positions: _Factor = (result[c], (a, None), (c,), "permuted", read)
        if along.are_elements:
            positions = (result[c], (a, None), (c,), "passed", None)
        window: _Factor = (right[b], (a, b), (), "need_replication", None)
        if fill is not None and not is_reversed and result[c] < right[b] <= left[a]:
            extent = (result[c] - 1) * along.stride + 1
            summed = Windows(left[a], right[b], along.dilation, extent, along.low, along.base, fill)
            window = (right[b], (a, b), (), "sum", summed)
            positions = (*positions[:-1], None)  # one of them is what devices read
        _add_within(factors, left[a], positions, window)
    if groups > 1:
        factors.add(groups, (dims.input_feature_dimension, kernels), (of_features,))
    factors.add(right[channels], (dims.input_feature_dimension, channels), (), _sum(query.op))
    of_group = result[of_features] // (groups * batch_groups)
    if of_group > 1:
        factors.add(of_group, (None, kernels), (of_features,))
    return factors.rule(products=products)


def _add_within(factors: Factors, size: int, *factors_of_dim: _Factor) -> None:
    """Add factors of one dimension of `size`, the larger one major, each as large as fits."""
    room = size
    for full, operands, results, kind, read in sorted(factors_of_dim, key=lambda each: -each[0]):
        size_here = min(full, room)
        if size_here > 1:
            known = read if size_here in (full, size) else None
            factors.add(size_here, operands, results, kind, windows=[known])
            room //= size_here


def _spatial_kind(
    along: WindowDimension, size: int, count: int, *, is_reversed: bool
) -> Literal["", "batch", "kernel"]:
    """How a spatial dimension is one of a product: each result has an element of both, or of one.

    batch      the input n apart, windows of n moved by n - 1: result i has input i, times kernel i
    kernel     one input between n - 1 paddings, the window reversed: result i has kernel i

    XLA writes products of many dimensions as such convolutions.
    """
    n, is_padded = along.size, (along.low, along.high) != (0, 0)
    if n == 1 or count != n or along.dilation != 1:
        return ""
    if size == n and not (is_padded or is_reversed) and (along.base, along.stride) == (n, n - 1):
        return "batch"
    is_alone = size == 1 and (along.low, along.high, along.stride) == (n - 1, n - 1, 1)
    return "kernel" if is_alone and is_reversed else ""


def _reversed(op: ir.Operation) -> list[bool]:
    name = "window_reversal"
    count = len(numbers(op, "dimension_numbers", "ConvDimensionNumbers").input_spatial_dimensions)
    return list(op.attributes[name]) if name in op.attributes else [False] * count


_NAMES = {"stride": "window_strides", "dilation": "rhs_dilation", "base": "lhs_dilation"}


def _windows(op: ir.Operation, dims: Any, kernel: Shape) -> list[WindowDimension]:
    return windows_of(op, _NAMES, [kernel[dim] for dim in dims.kernel_spatial_dimensions])


def partition_convolution(partitioned: PartitionedOp) -> None:
    """Set the number of groups and the padding of a shard.

    The local shapes give the groups. Where a spatial dimension is split, halos hold the padding.
    """
    op, result_shape = partitioned.op, partitioned.result.shape
    numbers_read = numbers(op, "dimension_numbers", "ConvDimensionNumbers")
    left, right = (partitioned.operand(number).shape for number in (0, 1))
    _partition_windows(partitioned, numbers_read)
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


def _partition_windows(partitioned: PartitionedOp, dims: Any) -> None:
    """Set the padding of a shard, and the strides of dimensions that are a product's."""
    op = partitioned.op
    left, right = (partitioned.operand(number) for number in (0, 1))
    windows = _windows(op, dims, right.global_shape)
    padding, strides, bases = [], [], []
    for at, (along, is_reversed) in enumerate(zip(windows, _reversed(op), strict=True)):
        dim, count = dims.input_spatial_dimensions[at], dims.output_spatial_dimensions[at]
        size = partitioned.result.global_shape[count]
        kind = _spatial_kind(along, left.global_shape[dim], size, is_reversed=is_reversed)
        here = right.shape[dims.kernel_spatial_dimensions[at]]
        padding.append(padding_of(partitioned, dim, (along.low, along.high)))
        strides.append(max(here - 1, 1) if kind == "batch" else along.stride)
        bases.append(here if kind == "batch" else along.base)
        if kind == "kernel":
            padding[-1] = here - 1, here - 1
    if padding:
        write_padding(op, padding)
    if (strides, bases) != ([w.stride for w in windows], [w.base for w in windows]):
        op.attributes["window_strides"] = ir.DenseI64ArrayAttr.get(strides)
        op.attributes["lhs_dilation"] = ir.DenseI64ArrayAttr.get(bases)


_WIDENED = expansion("upstream_workarounds:widen_unsigned")
RECORDS: dict[str, OpRecord] = {
    "convolution": OpRecord(
        convolution,
        sample=sample("convolution"),
        partition=partition_convolution,
        padding=identities,
        partial=scales,
        lowering=expansion("upstream_workarounds:convolution"),
        operations=arithmetic.convolution,
        python=python("convolution"),
        traits=Trait.SUMS,
    ),
    "dot": OpRecord(
        dot,
        padding=identities,
        lowering=_WIDENED,
        operations=product,
        python=python("dot"),
        traits=Trait.SUMS,
    ),
    "dot_general": OpRecord(
        dot_general,
        padding=identities,
        partial=scales,
        lowering=expansion("upstream_workarounds:dot_general"),
        operations=product,
        python=python("dot_general"),
        traits=Trait.SUMS,
    ),
}
