"""Samples of StableHLO's ops with windows."""

from __future__ import annotations

from shard_dialect.testing.random_draws import Draws, listed
from shard_dialect.testing.sample import Sample, Tensor
from shard_dialect.testing.samples.stablehlo_text import IDENTITIES, compare, hlo, joining

_KINDS = ((3, 1, 1, 1), (2, 2, 0, 0), (1, 1, 0, 0), (3, 2, 1, 0), (1, 2, 0, 0))
"""A window's size, its stride, and the padding in front and behind."""


def _read(result: int, window: int, stride: int, low: int, high: int) -> int:
    """The size that windows go over to make `result`."""
    return (result - 1) * stride + window - low - high


def _padding(pads: list[tuple[int, int]]) -> str:
    return f"padding = dense<{[list(each) for each in pads]}> : tensor<{len(pads)}x2xi64>"


def convolution(draws: Draws) -> Sample:
    """In any layout, of one or two dimensions in space."""
    space = [draws.pick(*_KINDS) for _ in range(draws.number(1, 2))]
    letters = [str(number) for number in range(len(space))]
    result_type = {letter: draws.size() for letter in letters}
    groups = draws.pick(1, 1, 2)
    batch, inputs, outputs = draws.pick(2, 4, 3), draws.pick(4, 3), groups * draws.pick(4, 3)
    tensors = [
        {"b": batch, "f": groups * inputs},
        {"i": inputs, "o": outputs},
        {"b": batch, "f": outputs} | result_type,
    ]
    for letter, kind in zip(letters, space, strict=True):
        tensors[0][letter] = _read(result_type[letter], *kind)
        tensors[1][letter] = kind[0]
    layouts = [[list(each)[number] for number in draws.order(len(each))] for each in tensors]
    element = draws.pick("f32", "f32", "i32", "ui32", "complex<f32>")
    x, kernel, result = (
        Tensor(tuple(sizes[letter] for letter in layout), element)
        for sizes, layout in zip(tensors, layouts, strict=True)
    )
    names = [f"[{', '.join(layout)}]" for layout in layouts]
    attributes = (
        f"dimension_numbers = #stablehlo.conv<{names[0]}x{names[1]}->{names[2]}>, "
        f"window_strides = {listed(kind[1] for kind in space)}, "
        f"{_padding([kind[2:] for kind in space])}, "
        f"batch_group_count = 1 : i64, feature_group_count = {groups} : i64"
    )
    return hlo("convolution", [x, kernel], [result], attributes)


def reduce_window(draws: Draws) -> Sample:
    kinds = [draws.pick(*_KINDS, (1, 1, 0, 0)) for _ in range(draws.number(1, 3))]
    result = Tensor(tuple(draws.size() for _ in kinds))
    x = Tensor(tuple(_read(size, *kind) for size, kind in zip(result.shape, kinds, strict=True)))
    (name, element), start = draws.pick(*IDENTITIES.items())
    if draws.chance(0.3):
        name, element, start = "add", "f32", "1.0"
    attributes = (
        f"window_dimensions = {listed(kind[0] for kind in kinds)}, "
        f"window_strides = {listed(kind[1] for kind in kinds)}, "
        f"{_padding([kind[2:] for kind in kinds])}"
    )
    operands, region = [x.of(element), Tensor((), element)], joining(name, element)
    return hlo("reduce_window", operands, [result.of(element)], attributes, region, {1: start})


def select_and_scatter(draws: Draws) -> Sample:
    kinds = [
        draws.pick((2, 2, 0, 0), (1, 1, 0, 0), (3, 1, 0, 0), (1, 2, 0, 0), (3, 2, 0, 0))
        for _ in range(draws.number(1, 2))
    ]
    source = Tensor(tuple(draws.size() for _ in kinds))
    dims = zip(source.shape, kinds, strict=True)
    x = Tensor(tuple(max(_read(size, *kind), size * kind[1]) for size, kind in dims))
    attributes = (
        f"window_dimensions = {listed(kind[0] for kind in kinds)}, "
        f"window_strides = {listed(kind[1] for kind in kinds)}"
    )
    regions = compare("GE") + "}, {" + joining("add")
    return hlo("select_and_scatter", [x, source, Tensor(())], [x], attributes, regions, {2: "0.0"})
