"""The arithmetic of StableHLO's ops that are not elementwise, on one device."""

from __future__ import annotations

from math import prod

from shard_dialect.ops.operations import Flops, LocalOp
from shard_dialect.ops.stablehlo.attribute_reading import (
    integers,
    numbers,
    sorted_dim,
    windows_over,
)


def convolution(op: LocalOp) -> Flops:
    """Each output element is a sum over the kernel, without its output features."""
    given = numbers(op.handle, "dimension_numbers", "ConvDimensionNumbers")
    kernel = op.shape(1)
    return Flops(2 * op.made * prod(kernel) // kernel[given.kernel_output_feature_dimension])


def reduce(op: LocalOp) -> Flops:
    """The body reduces all operands at once, the first half of them."""
    return op.body(0) * prod(op.shape(0))


def reduce_window(op: LocalOp) -> Flops:
    """For each element of each window the body; once for each of windows that run over all.

    These are cumulative sums and the like, of which compilers make one pass (`running_windows.py`).
    """
    windows = zip(windows_over(op.handle), op.shape(0), strict=True)
    sizes = [1 if each.run_over(size) else each.size for each, size in windows]
    return op.body(0) * (op.made * prod(sizes))


def select_and_scatter(op: LocalOp) -> Flops:
    """For each element of the source a selection from its window, and one addition."""
    source = prod(op.shape(1))
    selects = op.body(0).total * max(0, prod(integers(op.handle, "window_dimensions")) - 1)
    return Flops(source * (selects + op.body(1).total))


def scatter(op: LocalOp) -> Flops:
    """The body runs once for each element of the updates, which are the last operands."""
    return op.body(0) * prod(op.shape(len(op.operands) - 1))


def mapped(op: LocalOp) -> Flops:
    """The body for each element."""
    return op.body(0) * op.made


def sort(op: LocalOp) -> Flops:
    """N log2(n) comparisons along the dimension."""
    shape = op.shape(0)
    size = shape[sorted_dim(op.handle)] if shape else 1
    return op.body(0) * (prod(shape) * max(0, size - 1).bit_length())


def fourier(op: LocalOp) -> Flops:
    """5 n log2(n) for a transform of n complex numbers, half of it for real ones."""
    tensor = op.results[0]
    lengths = integers(op.handle, "fft_length")
    n = prod(lengths)
    source = op.operands[0]
    assert tensor is not None
    assert source is not None
    is_real = not (source.element.startswith("complex") and tensor.element.startswith("complex"))
    count = max(source.elements, tensor.elements) // max(1, prod(lengths))
    return Flops(5 * n * max(0, n - 1).bit_length() * count // (2 if is_real else 1))


def cholesky(op: LocalOp) -> Flops:
    """A third of n^3 for each matrix."""
    *batch, n, _ = op.shape(0)
    return Flops(prod(batch) * n**3 // 3)


def triangular_solve(op: LocalOp) -> Flops:
    """N for each element of the right side."""
    n = op.shape(0)[-1]
    return Flops(prod(op.shape(1)) * n)


def batch_norm(count: int, op: LocalOp) -> Flops:
    """About as many operations for each element of the operand."""
    return Flops(count * prod(op.shape(0)))


def random(op: LocalOp) -> Flops:
    """About ten operations on integers for each number."""
    return Flops(10 * sum(each.elements for each in op.results if each))
