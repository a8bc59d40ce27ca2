"""Reductions, products, windows and lookups of TOSA."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shard_dialect.proof.contractions import Over, contracted
from shard_dialect.proof.elementwise import combined, identity, reduced
from shard_dialect.proof.machine import Data, Machine, Value, means
from shard_dialect.proof.reading import Op, Type
from shard_dialect.proof.structured_stablehlo import windows
from shard_dialect.proof.tensors import padded

_KINDS = {
    "reduce_sum": "add",
    "reduce_product": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_all": "and",
    "reduce_any": "or",
}


@means(*(f"tosa.{name}" for name in _KINDS))
def _reduce(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    dim = m.axes + op.attributes["axis"]
    total = reduced(m, _KINDS[op.name[5:]], values[0], op.type, [dim])
    return total.with_data(np.expand_dims(total.data, dim))


@means("tosa.argmax")
def _argmax(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    data = values[0].data
    data = m.ranks(data) if values[0].is_symbolic else data
    return Value(np.argmax(data, axis=m.axes + op.attributes["axis"]).astype(np.int64), False)


def _factors(
    m: Machine, values: Sequence[Value], points: Sequence[Value], type_: Type
) -> Sequence[Value]:
    """The factors of a product, minus their zero points where there are some."""
    pairs = zip(values, points, strict=True) if points else ()
    return [combined(m, "sub", value, point, type_) for value, point in pairs] or values


@means("tosa.matmul")
def _matmul(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    a, b = _factors(m, values[:2], values[2:], op.type)
    return contracted(m, Over(a, (0, 1, 2)), Over(b, (0, 2, 3)), [0, 1, 3], op.type)


@means("tosa.conv2d", "tosa.conv3d", "tosa.depthwise_conv2d")
def _convolution(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    image, kernel, bias, *points = values
    image, kernel = _factors(m, (image, kernel), points, op.type)
    space = image.data.ndim - m.axes - 2
    ends = np.asarray(op.attributes["pad"]).reshape(space, 2).tolist()
    zero = identity(m, "add", op.type)
    image = padded(
        m, image, zero, [0, *(low for low, _ in ends), 0], [0, *(high for _, high in ends), 0],
        [0] * (space + 2),
    )  # fmt: skip
    depthwise = op.name == "tosa.depthwise_conv2d"
    first = m.axes if depthwise else m.axes + 1
    window = kernel.data.shape[first : first + space]
    moved = np.moveaxis(image.data, -1, m.axes + 1)  # batch, channel, places
    seen = windows(m, moved, window, op.attributes["stride"], op.attributes["dilation"], 2)
    # Loops: 0 batch, 1 input channel, 2 output channel, then places, then windows.
    places = [3 + dim for dim in range(space)]
    inside = [3 + space + dim for dim in range(space)]
    a = Over(image.with_data(seen), (0, 1, *places, *inside))
    if depthwise:
        summed = contracted(m, a, Over(kernel, (*inside, 1, 2)), [0, *places, 1, 2], op.type)
        data = summed.data.reshape((*summed.data.shape[:-2], -1))
        summed = summed.with_data(data)
    else:
        summed = contracted(m, a, Over(kernel, (2, *inside, 1)), [0, *places, 2], op.type)
    return _biased(m, summed, bias, op.type)


@means("tosa.transpose_conv2d")
def _transposed_convolution(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """Each element of the image adds the kernel, times it, at its place times the stride."""
    image, kernel, bias, *points = values
    image, kernel = _factors(m, (image, kernel), points, op.type)
    window = kernel.data.shape[m.axes + 1 : m.axes + 3]
    top, bottom, left, right = op.attributes["out_pad"]
    strides = op.attributes["stride"]
    image = padded(
        m, image, identity(m, "add", op.type),
        [0, window[0] - 1 + top, window[1] - 1 + left, 0],
        [0, window[0] - 1 + bottom, window[1] - 1 + right, 0],
        [0, strides[0] - 1, strides[1] - 1, 0],
    )  # fmt: skip
    flipped = np.flip(kernel.data, (m.axes + 1, m.axes + 2))
    moved = np.moveaxis(image.data, -1, m.axes + 1)
    seen = windows(m, moved, window, [1, 1], [1, 1], 2)
    # Loops: 0 batch, 1 input channel, 2 output channel, 3 and 4 places, 5 and 6 windows.
    a = Over(image.with_data(seen), (0, 1, 3, 4, 5, 6))
    b = Over(kernel.with_data(flipped), (2, 5, 6, 1))
    return _biased(m, contracted(m, a, b, [0, 3, 4, 2], op.type), bias, op.type)


def _biased(m: Machine, summed: Value, bias: Value, type_: Type) -> Value:
    before = [1] * (summed.data.ndim - m.axes - 1)
    wide = m.shaped(bias, [*before, bias.data.shape[-1]])
    return combined(m, "add", summed, wide, type_)


@means("tosa.max_pool2d", "tosa.avg_pool2d")
def _pool(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    image, type_ = values[0], op.type
    if len(values) > 1 and not type_.is_float:
        raise m.unproven(op, "is an average of integers, whose rounding the prover does not know")
    kind = "max" if op.name == "tosa.max_pool2d" else "add"
    total = _pooled(m, op, image, kind, type_)
    if kind == "max":
        return total
    ones = Value(m.scalar(np.ones(op.operand_types[0].shape, np.uint64)), True)
    count = _pooled(m, op, ones, "add", type_)
    return combined(m, "div", total, count, type_)


def _pooled(m: Machine, op: Op, image: Value, kind: str, type_: Type) -> Value:
    top, bottom, left, right = op.attributes["pad"]
    fill = identity(m, kind, type_)
    wide = padded(m, image, fill, [0, top, left, 0], [0, bottom, right, 0], [0] * 4)
    moved: Data = np.moveaxis(wide.data, -1, m.axes + 1)
    seen = windows(m, moved, op.attributes["kernel"], op.attributes["stride"], [1, 1], 2)
    total = reduced(m, kind, wide.with_data(seen), type_, [seen.ndim - 2, seen.ndim - 1])
    return total.with_data(np.moveaxis(total.data, m.axes + 1, -1))


@means("tosa.gather")
def _gather(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    source, rows = values
    batch, _, channel = m.aranges(op.type.shape)
    indices = m.integers(rows)[..., None]
    m.require(op, (indices >= 0) & (indices < source.data.shape[m.axes + 1]))
    zeros = np.zeros((1,) * (m.axes + 3), np.int64)
    picked = m.picked(source.data, [zeros + batch, zeros + indices, zeros + channel])
    return source.with_data(picked)


@means("tosa.tile")
def _tile(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    data = values[0].data
    counts = [made // size for made, size in zip(op.type.shape, data.shape[m.axes :], strict=True)]
    return values[0].with_data(np.tile(data, (*(1,) * m.axes, *counts)))
