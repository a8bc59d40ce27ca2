"""`tosa`'s convolutions and poolings: batch and channels are split, images where windows allow it.

    conv2d   ([n, h, w, c], [o, 1, 1, c], [o], [1], [1]) -> ([n, h, w, o])

Bias is added once, so that the sum over input channels is split only where it is zero. Along a
dimension of the image

    windows of 2, moved by 2    ([ij], [j]) -> ([i])    they lie side by side
    windows of 3, moved by 1    ([i], [1])  -> ([i])    permuted: a shard reads its neighbours',
                                                        a halo of [1, 1] where it is padded so
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import splat_value
from shard_dialect.ir.building.reductions import identity
from shard_dialect.model import Reduction, ShardingRule
from shard_dialect.rules.factors import Factors, Kind
from shard_dialect.rules.op_record import OpRecord
from shard_dialect.rules.padding import identities_without_zero_points
from shard_dialect.rules.partitioning import PartitionedOp
from shard_dialect.rules.query import Query
from shard_dialect.rules.window_shards import WindowDimension, padding_of


@dataclass(frozen=True)
class _Attributes:
    """How windows go over the dimensions of an image, read from an op's attributes."""

    sizes: list[int]
    strides: list[int]
    dilations: list[int]
    padding: list[int]

    def are_side_by_side(self, place: int, size: int, made: int) -> bool:
        """Whether windows cover dimension `place` of the image, one after the other."""
        window, stride = self.sizes[place], self.strides[place]
        is_dense = window == 1 or self.dilations[place] == 1
        is_bare = not any(self.padding[2 * place : 2 * place + 2])
        return is_dense and is_bare and window == stride and size == made * window

    def along(self, place: int) -> WindowDimension:
        low, high = self.padding[2 * place : 2 * place + 2]
        return WindowDimension(
            self.sizes[place], self.strides[place], self.dilations[place], 1, low, high
        )


def _windows(query: Query, sizes: list[int]) -> _Attributes:
    attributes = query.op.attributes
    dilations = list(attributes["dilation"]) if "dilation" in attributes else [1] * len(sizes)
    return _Attributes(sizes, list(attributes["stride"]), dilations, list(attributes["pad"]))


def _go_over_image(
    factors: Factors,
    windows: _Attributes,
    kernel: int | None = None,
    fill: Reduction | None = None,
) -> None:
    """The factors of the image's dimensions, which begin at 1 in it, in the kernel at `kernel`.

    `fill` is the reduction that padding leaves alone, if there is one.
    """
    for place, window in enumerate(windows.sizes):
        dim = place + 1
        size, made = factors.operands[0][dim], factors.results[0][dim]
        of_kernel = None if kernel is None else kernel + place
        if windows.are_side_by_side(place, size, made):
            factors.add(made, (dim,), (dim,))
            factors.add(window, (dim, of_kernel), kind="whole")
            continue
        read = windows.along(place).over(size, made, fill)
        factors.add(made if read else size, (dim,), (dim,), "permuted", windows=[read])


def _zero_padding(query: Query) -> Reduction | None:
    """A sum, where what is padded counts as zero."""
    zero = query.op.operands[3]
    return "sum" if _is_zero(zero) and _is_number(query.op.operands[0]) else None


def _is_number(value: ir.Value) -> bool:
    element = value.type.element_type
    return isinstance(element, ir.FloatType) or (element.width > 1 and element.is_signless)


def _is_zero(value: ir.Value) -> bool:
    repeated = splat_value(value)
    return repeated is not None and repeated == identity("sum", repeated.type)


def _summed(query: Query) -> Kind:
    """What input channels are: a sum that starts from the bias, which must count once."""
    return "sum" if _is_zero(query.op.operands[2]) else "whole"


def _bias(query: Query) -> int | None:
    """The bias's dimension, if it has an element for each channel."""
    return None if query.operands[2] == (1,) else 0


def convolution(query: Query) -> ShardingRule:
    """Kernels are `[o, h, w, c]`, or `[o, d, h, w, c]`."""
    factors = Factors(query)
    image, kernel = factors.operands[0], factors.operands[1]
    last = len(image) - 1
    factors.add(image[0], (0,), (0,))
    windows = _windows(query, list(kernel[1:-1]))
    _go_over_image(factors, windows, 1, _zero_padding(query))
    factors.add(image[-1], (last, last), kind=_summed(query))
    factors.add(kernel[0], (None, 0, _bias(query)), (last,))
    return factors.rule()


def depthwise(query: Query) -> ShardingRule:
    """Kernels are `[h, w, c, m]`; the result has m channels for each of the input's."""
    factors = Factors(query)
    image, kernel = factors.operands[0], factors.operands[1]
    factors.add(image[0], (0,), (0,))
    _go_over_image(factors, _windows(query, list(kernel[:2])), 0, _zero_padding(query))
    factors.add(kernel[2], (3, 2, _bias(query)), (3,))
    factors.add(kernel[3], (None, 3, _bias(query)), (3,))
    return factors.rule()


def transposed(query: Query) -> ShardingRule:
    """Each element of the image is in several of the result's: it is permuted."""
    factors = Factors(query)
    image, kernel = factors.operands[0], factors.operands[1]
    factors.add(image[0], (0,), (0,))
    for dim in (1, 2):
        factors.add(image[dim], (dim,), (dim,), "permuted")
    factors.add(image[3], (3, 3), kind=_summed(query))
    factors.add(kernel[0], (None, 0, _bias(query)), (3,))
    return factors.rule()


def max_pooling(query: Query) -> ShardingRule:
    """Padding is left out of a maximum, unless all there is besides are NaNs that are too."""
    attributes = query.op.attributes
    ignores_nan = "nan_mode" in attributes and "IGNORE" in str(attributes["nan_mode"])
    return pooling(query, "max" if not ignores_nan and _is_number(query.op.operands[0]) else None)


def pooling(query: Query, fill: Reduction | None = None) -> ShardingRule:
    factors = Factors(query)
    image = factors.operands[0]
    factors.add(image[0], (0,), (0,))
    windows = _windows(query, list(query.op.attributes["kernel"]))
    _go_over_image(factors, windows, None, fill)
    factors.add(image[3], (3,), (3,))
    return factors.rule()


def all_but_image(query: Query) -> ShardingRule:
    """Windows, or scales, that are operands: nothing is known of them."""
    factors = Factors(query)
    for dim, size in enumerate(factors.operands[0]):
        factors.add(size, (dim,), (dim,), "permuted" if dim in (1, 2) else "passed")
    return factors.rule()


def partition_padding(partitioned: PartitionedOp) -> None:
    """What is padded of a shard is in its halos."""
    before = list(partitioned.op.attributes["pad"])
    after: list[int] = []
    for place in range(len(before) // 2):
        low, high = before[2 * place : 2 * place + 2]
        after += padding_of(partitioned, 0, place + 1, (low, high))
    partitioned.op.attributes["pad"] = ir.DenseI64ArrayAttr.get(after)


RECORDS: dict[str, OpRecord] = {
    "tosa.avg_pool2d": OpRecord(pooling, partition=partition_padding),
    "tosa.avg_pool2d_adaptive": OpRecord(all_but_image),
    "tosa.conv2d": OpRecord(
        convolution, partition=partition_padding, padding=identities_without_zero_points(3, 4)
    ),
    "tosa.conv3d": OpRecord(
        convolution, partition=partition_padding, padding=identities_without_zero_points(3, 4)
    ),
    "tosa.depthwise_conv2d": OpRecord(depthwise, partition=partition_padding),
    "tosa.max_pool2d": OpRecord(max_pooling, partition=partition_padding),
    "tosa.max_pool2d_adaptive": OpRecord(all_but_image),
    "tosa.resize": OpRecord(all_but_image),
    "tosa.transpose_conv2d": OpRecord(transposed, padding=identities_without_zero_points(3, 4)),
}
