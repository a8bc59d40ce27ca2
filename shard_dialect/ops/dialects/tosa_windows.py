"""`tosa`'s convolutions and poolings: batch and channels may be split, images if windows allow.

    conv2d   ([n, h, w, c], [o, 1, 1, c], [o], [1], [1]) -> ([n, h, w, o])

Bias must be added once, so the sum over input channels is split only if the bias is zero. Along a
dimension of the image

    windows of 2, moved by 2    ([ij], [j]) -> ([i])    adjacent and disjoint
    windows of 3, moved by 1    ([i], [1])  -> ([i])    permuted, with a halo of [1, 1] for
                                                        padding of 1 at both ends
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import splat_value
from shard_dialect.ir.building.reductions import identity
from shard_dialect.model import Reduction, ShardingRule
from shard_dialect.ops.factors import Factors, Kind, Query
from shard_dialect.ops.op_record import Later, OpRecord
from shard_dialect.ops.operations import Flops, LocalOp
from shard_dialect.ops.padding import identities_without_zero_points
from shard_dialect.ops.partitioned_op import PartitionedOp
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.window_shards import WindowDimension, padding_of


@dataclass(frozen=True)
class _Attributes:
    """The windows over the dimensions of an image, read from an op's attributes."""

    sizes: list[int]
    strides: list[int]
    dilations: list[int]
    padding: list[int]

    def are_disjoint(self, number: int, size: int, windows: int) -> bool:
        """Whether adjacent, disjoint windows cover dimension `number` of the image."""
        window, stride = self.sizes[number], self.strides[number]
        is_dense = window == 1 or self.dilations[number] == 1
        is_bare = not any(self.padding[2 * number : 2 * number + 2])
        return is_dense and is_bare and window == stride and size == windows * window

    def along(self, number: int) -> WindowDimension:
        low, high = self.padding[2 * number : 2 * number + 2]
        return WindowDimension(
            self.sizes[number], self.strides[number], self.dilations[number], 1, low, high
        )


def _windows(query: Query, sizes: list[int]) -> _Attributes:
    attributes = query.op.attributes
    dilations = list(attributes["dilation"]) if "dilation" in attributes else [1] * len(sizes)
    return _Attributes(sizes, list(attributes["stride"]), dilations, list(attributes["pad"]))


def _go_over_image(
    factors: Factors, windows: _Attributes, kernel: int | None = None, fill: Reduction | None = None
) -> None:
    """Add the factors of the image's dimensions: from 1 on in the operand, `kernel` in the kernel.

    `fill` is the reduction whose identity the padding is, if there is one.
    """
    for number, window in enumerate(windows.sizes):
        dim = number + 1
        size, result_size = factors.operands[0][dim], factors.results[0][dim]
        of_kernel = None if kernel is None else kernel + number
        if windows.are_disjoint(number, size, result_size):
            factors.add(result_size, (dim,), (dim,))
            factors.add(window, (dim, of_kernel), kind="need_replication")
            continue
        read = windows.along(number).over(size, result_size, fill)
        factors.add(result_size if read else size, (dim,), (dim,), "permuted", windows=[read])


def _zero_padding(query: Query) -> Reduction | None:
    """`sum` where padding counts as zero, else `None`."""
    zero = query.op.operands[3]
    return "sum" if _is_zero(zero) and _is_number(query.op.operands[0]) else None


def _is_number(value: ir.Value) -> bool:
    element = value.type.element_type
    return isinstance(element, ir.FloatType) or (element.width > 1 and element.is_signless)


def _is_zero(value: ir.Value) -> bool:
    repeated = splat_value(value)
    return repeated is not None and repeated == identity("sum", repeated.type)


def _summed(query: Query) -> Kind:
    """The kind of the input channels' factor: a sum if the bias is zero, else whole."""
    return "sum" if _is_zero(query.op.operands[2]) else "need_replication"


def _bias(query: Query) -> int | None:
    """The dimension of the bias that is the channel; `None` if it has one element."""
    return None if query.operands[2] == (1,) else 0


def convolution(query: Query) -> ShardingRule:
    """The rule of a convolution with kernels `[o, h, w, c]`, or `[o, d, h, w, c]`."""
    factors = Factors(query)
    image, kernel = factors.operands[0], factors.operands[1]
    last = len(image) - 1
    factors.add(image[0], (0,), (0,))
    windows = _windows(query, list(kernel[1:-1]))
    _go_over_image(factors, windows, 1, _zero_padding(query))
    factors.add(image[-1], (last, last), kind=_summed(query))
    factors.add(kernel[0], (None, 0, _bias(query)), (last,))
    return factors.rule(products=prod(factors.results[0]) * prod(kernel[1:]))


def depthwise(query: Query) -> ShardingRule:
    """The rule for kernels `[h, w, c, m]`: the result has m channels for each of the input's."""
    factors = Factors(query)
    image, kernel = factors.operands[0], factors.operands[1]
    factors.add(image[0], (0,), (0,))
    _go_over_image(factors, _windows(query, list(kernel[:2])), 0, _zero_padding(query))
    factors.add(kernel[2], (3, 2, _bias(query)), (3,))
    factors.add(kernel[3], (None, 3, _bias(query)), (3,))
    return factors.rule()


def transposed(query: Query) -> ShardingRule:
    """The image's dimensions are permuted: each element contributes to several of the result."""
    factors = Factors(query)
    image, kernel = factors.operands[0], factors.operands[1]
    factors.add(image[0], (0,), (0,))
    for dim in (1, 2):
        factors.add(image[dim], (dim,), (dim,), "permuted")
    factors.add(image[3], (3, 3), kind=_summed(query))
    factors.add(kernel[0], (None, 0, _bias(query)), (3,))
    return factors.rule(products=prod(image) * prod(kernel[:-1]))


def max_pooling(query: Query) -> ShardingRule:
    """As `pooling`; padding is the identity of max, unless the op ignores NaNs."""
    attributes = query.op.attributes
    ignores_nan = "nan_mode" in attributes and "IGNORE" in str(attributes["nan_mode"])
    return pooling(query, "max" if not ignores_nan and _is_number(query.op.operands[0]) else None)


def pooling(query: Query, fill: Reduction | None = None) -> ShardingRule:
    """Batch and channels pass; images are read in windows. `fill` is as in `Windows`."""
    factors = Factors(query)
    image = factors.operands[0]
    factors.add(image[0], (0,), (0,))
    windows = _windows(query, list(query.op.attributes["kernel"]))
    _go_over_image(factors, windows, None, fill)
    factors.add(image[3], (3,), (3,))
    return factors.rule()


def all_but_image(query: Query) -> ShardingRule:
    """Batch and channels pass; image dimensions are permuted, since windows are operands."""
    factors = Factors(query)
    for dim, size in enumerate(factors.operands[0]):
        factors.add(size, (dim,), (dim,), "permuted" if dim in (1, 2) else "passed")
    return factors.rule()


def partition_padding(partitioned: PartitionedOp) -> None:
    """Set the padding of a shard; where the dimension is split, halos hold the padding."""
    before = list(partitioned.op.attributes["pad"])
    after: list[int] = []
    for number in range(len(before) // 2):
        low, high = before[2 * number : 2 * number + 2]
        after += padding_of(partitioned, number + 1, (low, high))
    partitioned.op.attributes["pad"] = ir.DenseI64ArrayAttr.get(after)


def convolved(op: LocalOp) -> Flops:
    """Each output element is a sum over the kernel, without its output features, its first."""
    return Flops(2 * op.made * prod(op.shape(1)[1:]))


def convolved_depthwise(op: LocalOp) -> Flops:
    """The kernel has height, width, channels and a multiplier."""
    return Flops(2 * op.made * prod(op.shape(1)[:2]))


def convolved_transposed(op: LocalOp) -> Flops:
    """Each input element is multiplied with the whole kernel."""
    return Flops(2 * prod(op.shape(0)) * prod(op.shape(1)) // op.shape(1)[-1])


def pooled(op: LocalOp) -> Flops:
    """One operation for each element of each window."""
    return Flops(op.made * prod(op.handle.attributes["kernel"]))


def _sample(name: str, *given: Any) -> Later:
    return Later(f"testing.samples.tosa_samples:{name}", given)


_WITHOUT_ZERO_POINTS = identities_without_zero_points(3, 4)
_BY_BIAS = Trait.SUMS | Trait.BY_NEIGHBOURS
_UPSTREAM = "upstream lowers it to nothing that runs"

RECORDS: dict[str, OpRecord] = {
    "tosa.avg_pool2d": OpRecord(
        pooling,
        sample=_sample("pool", "avg_pool2d"),
        partition=partition_padding,
        operations=pooled,
        traits=Trait.SUMS,
    ),
    "tosa.avg_pool2d_adaptive": OpRecord(
        all_but_image, sample=_sample("adaptive", "avg_pool2d_adaptive"), not_run=_UPSTREAM
    ),
    **{
        f"tosa.{name}": OpRecord(
            convolution,
            sample=_sample("convolution", name, dims),
            partition=partition_padding,
            padding=_WITHOUT_ZERO_POINTS,
            operations=convolved,
            traits=_BY_BIAS,
        )
        for name, dims in (("conv2d", 2), ("conv3d", 3))
    },
    "tosa.depthwise_conv2d": OpRecord(
        depthwise,
        sample=_sample("convolution", "depthwise_conv2d", 2),
        partition=partition_padding,
        operations=convolved_depthwise,
        traits=_BY_BIAS,
    ),
    "tosa.max_pool2d": OpRecord(
        max_pooling,
        sample=_sample("pool", "max_pool2d"),
        partition=partition_padding,
        operations=pooled,
        traits=Trait.EXACT,
    ),
    "tosa.max_pool2d_adaptive": OpRecord(
        all_but_image, sample=_sample("adaptive", "max_pool2d_adaptive"), not_run=_UPSTREAM
    ),
    "tosa.resize": OpRecord(all_but_image, sample=_sample("resize")),
    "tosa.transpose_conv2d": OpRecord(
        transposed,
        sample=_sample("transpose_conv2d"),
        padding=_WITHOUT_ZERO_POINTS,
        operations=convolved_transposed,
        traits=_BY_BIAS,
    ),
}
