"""Samples of `tosa` ops. Shapes, zero points, and tables are constants beside the op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.testing.random_draws import Draws, dense, listed
from shard_dialect.testing.sample import Sample, Tensor


@dataclass(frozen=True, slots=True)
class Constant:
    """An operand that is a constant: its definition, and its type."""

    maker: str
    type: str


def constant(values: object, type_: Tensor) -> Constant:
    """A `tosa.const` with these values."""
    return Constant(
        f'"tosa.const"() {{values = {dense(values, type_)}}} : () -> {type_}', str(type_)
    )


def shape(*sizes: int) -> Constant:
    """A `tosa.const_shape` with these sizes."""
    values = f"dense<{list(sizes)}> : tensor<{len(sizes)}xindex>"
    type_ = f"!tosa.shape<{len(sizes)}>"
    return Constant(f"tosa.const_shape {{values = {values}}} : () -> {type_}", type_)


def tosa(
    name: str,
    operands: Sequence[Tensor | Constant],
    results: Sequence[Tensor],
    attributes: str = "",
) -> Sample:
    """The sample `%r = tosa.name operands {attributes}`."""
    lines: list[str] = []
    names: list[str] = []
    types: list[str] = []
    tensors = [each for each in operands if isinstance(each, Tensor)]
    for each in operands:
        if isinstance(each, Constant):
            names.append(f"%c{len(lines)}")
            types.append(each.type)
            lines.append(f"{names[-1]} = {each.maker}")
        else:
            names.append(f"%{len(names) - len(lines)}")
            types.append(str(each))
    several = f":{len(results)}" if len(results) > 1 else ""
    attribute_text = f" {{{attributes}}}" if attributes else ""
    result = ", ".join(map(str, results))
    result = result if len(results) == 1 else f"({result})"
    lines.append(
        f"%r{several} = tosa.{name} {', '.join(names)}{attribute_text} : "
        f"({', '.join(types)}) -> {result}"
    )
    return Sample.of(f"tosa.{name}", tensors, "\n".join(lines), results)


ZERO = constant(0.0, Tensor((1,)))


def broadcast(draws: Draws, x: Tensor) -> Tensor:
    """As `x`, but that some dimensions may be of size 1."""
    return Tensor(tuple(1 if draws.chance(0.25) else size for size in x.shape), x.element)


def cast(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("cast", [x], [x.of("i32")])


def clamp(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("clamp", [x], [x], "min_val = -0.5 : f32, max_val = 0.5 : f32")


def const(draws: Draws) -> Sample:
    result = Tensor((draws.size(), draws.size()))
    rows, columns = result.shape
    values = [[float(row - column) for column in range(columns)] for row in range(rows)]
    text = f'%r = "tosa.const"() {{values = {dense(values, result)}}} : () -> $r'
    return Sample.of("tosa.const", [], text, [result])


def mul(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("mul", [x, broadcast(draws, x), constant(0, Tensor((1,), "i8"))], [x])


def negate(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("negate", [x, ZERO, ZERO], [x])


def select(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("select", [broadcast(draws, x).of("i1"), x, broadcast(draws, x)], [x])


def table(draws: Draws) -> Sample:
    x = draws.any("i8", least=1)
    return tosa("table", [x, constant(list(range(-128, 128)), Tensor((256,), "i8"))], [x])


def reduce(name: str, draws: Draws) -> Sample:
    elements = ("i1",) if name in ("all", "any") else ("f32", "f32", "i32")
    element = "f32" if name == "product" else draws.pick(*elements)
    x = draws.any(element, least=1)
    dim = draws.dim(x)
    attributes = f"axis = {dim} : i32"
    if element == "f32" and name in ("max", "min") and draws.chance(0.2):
        attributes += ", nan_mode = IGNORE"
    return tosa(f"reduce_{name}", [x], [x.sized(dim, 1)], attributes)


def argmax(draws: Draws) -> Sample:
    x = draws.any(least=1)
    dim = draws.dim(x)
    return tosa("argmax", [x], [x.without(dim).of("i32")], f"axis = {dim} : i32")


def concat(draws: Draws) -> Sample:
    x = draws.any(least=1)
    dim = draws.dim(x)
    y = x.sized(dim, draws.pick(x.shape[dim], draws.size()))
    result = x.sized(dim, x.shape[dim] + y.shape[dim])
    return tosa("concat", [x, y], [result], f"axis = {dim} : i32")


def pad(draws: Draws) -> Sample:
    x = draws.any(least=1)
    edges = [draws.pick(0, 0, 1, 3) for _ in range(2 * len(x.shape))]
    sizes = zip(x.shape, edges[::2], edges[1::2], strict=True)
    return tosa("pad", [x, shape(*edges), ZERO], [Tensor(tuple(map(sum, sizes)))])


def reshape(draws: Draws) -> Sample:
    x = draws.any(least=1)
    result = draws.pick(
        (prod(x.shape),), (x.shape[0], prod(x.shape[1:])), (prod(x.shape[:-1]), x.shape[-1]),
        (1, *x.shape), tuple(reversed(x.shape)),
    )  # fmt: skip
    return tosa("reshape", [x, shape(*result)], [Tensor(result)])


def reverse(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("reverse", [x], [x], f"axis = {draws.dim(x)} : i32")


def slice_(draws: Draws) -> Sample:
    x = draws.any(least=1)
    starts = [draws.pick(0, 0, draws.number(0, size - 1)) for size in x.shape]
    sizes = [
        draws.pick(size - start, draws.number(1, size - start))
        for size, start in zip(x.shape, starts, strict=True)
    ]
    return tosa("slice", [x, shape(*starts), shape(*sizes)], [Tensor(tuple(sizes))])


def tile(draws: Draws) -> Sample:
    x = draws.any(least=1)
    times = [draws.pick(1, 1, 2, 3) for _ in x.shape]
    result = tuple(size * count for size, count in zip(x.shape, times, strict=True))
    return tosa("tile", [x, shape(*times)], [Tensor(result)])


def transpose(draws: Draws) -> Sample:
    x = draws.any(least=1)
    order = draws.order(len(x.shape))
    attributes = f"perms = {listed(order).replace('i64', 'i32')}"
    return tosa("transpose", [x], [Tensor(tuple(x.shape[dim] for dim in order))], attributes)


def _indices(
    draws: Draws, count: int, positions: int, rows: int, distinct: bool = False
) -> Constant:
    """Rows to look up: within the table, as TOSA demands."""
    values = [
        draws.rng.sample(range(rows), positions)
        if distinct
        else [draws.number(0, rows - 1) for _ in range(positions)]
        for _ in range(count)
    ]
    return constant(values, Tensor((count, positions), "i32"))


def gather(draws: Draws) -> Sample:
    x = draws.fits("f32", None, None, None)
    count, rows, channels = x.shape
    positions = draws.size()
    result = Tensor((count, positions, channels))
    return tosa("gather", [x, _indices(draws, count, positions, rows)], [result])


def row_gather(draws: Draws) -> Sample:
    x = draws.fits("f32", None, None, None)
    count, _, channels = x.shape
    at, two = Tensor((count, draws.size()), "i32"), constant(2, Tensor((1,), "i32"))
    return tosa("row_gather", [x, at, two], [Tensor((count, 2 * at.shape[1], channels))])


def scatter(draws: Draws) -> Sample:
    x = draws.fits("f32", None, None, None)
    count, rows, channels = x.shape
    positions = draws.number(1, min(rows, 4))
    update = Tensor((count, positions, channels))
    return tosa("scatter", [x, _indices(draws, count, positions, rows, distinct=True), update], [x])


def matmul(name: str, draws: Draws) -> Sample:
    a = draws.fits("f32", None, None, None)
    n, _, k = a.shape
    b = draws.fits("f32", n, k, None) if name == "matmul" else draws.fits("f32", n, None, k)
    w = b.shape[2 if name == "matmul" else 1]
    return tosa(name, [a, b, ZERO, ZERO], [Tensor((n, a.shape[1], w))])


@dataclass(frozen=True, slots=True)
class _Window:
    """A dimension of an image: its sizes, and the window's size, stride and padding."""

    size: int
    result_size: int
    window: int
    stride: int
    low: int
    high: int

    @classmethod
    def drawn(cls, draws: Draws) -> _Window:
        window, stride, low, high = draws.pick(
            (3, 1, 1, 1), (2, 2, 0, 0), (1, 1, 0, 0), (3, 2, 1, 0)
        )
        result = draws.size()
        return cls((result - 1) * stride + window - low - high, result, window, stride, low, high)


def _windowed(windows: Sequence[_Window]) -> str:
    edges = [each for window in windows for each in (window.low, window.high)]
    return f"pad = {listed(edges)}, stride = {listed(window.stride for window in windows)}"


def _bias(draws: Draws, features: int) -> Tensor | Constant:
    one_each = Tensor((features,))
    return constant(0.0, one_each) if draws.chance(0.5) else one_each


def convolution(name: str, rank: int, draws: Draws) -> Sample:
    windows = [_Window.drawn(draws) for _ in range(rank)]
    batch, channels, features = draws.pick(2, 4, 3), draws.pick(4, 3), draws.pick(8, 4, 5)
    space = [
        tuple(getattr(each, what) for each in windows) for what in ("size", "window", "result_size")
    ]
    kernel = Tensor((features, *space[1], channels))
    if name == "depthwise_conv2d":
        features *= channels
        kernel = Tensor((*space[1], channels, features // channels))
    image, result = Tensor((batch, *space[0], channels)), Tensor((batch, *space[2], features))
    attributes = f"acc_type = f32, dilation = {listed([1] * rank)}, {_windowed(windows)}"
    return tosa(name, [image, kernel, _bias(draws, features), ZERO, ZERO], [result], attributes)


def transpose_conv2d(draws: Draws) -> Sample:
    h, w, batch = draws.size(), draws.size(), 2
    channels, features = draws.pick(4, 3), draws.pick(8, 5)
    image, kernel = Tensor((batch, h, w, channels)), Tensor((features, 3, 3, channels))
    result = Tensor((batch, 2 * h + 1, 2 * w + 1, features))
    attributes = f"acc_type = f32, out_pad = {listed([0] * 4)}, stride = {listed([2, 2])}"
    operands = [image, kernel, _bias(draws, features), ZERO, ZERO]
    return tosa("transpose_conv2d", operands, [result], attributes)


def pool(name: str, draws: Draws) -> Sample:
    windows = [_Window.drawn(draws) for _ in range(2)]
    batch, channels = draws.pick(2, 4, 3), draws.pick(4, 3)
    image = Tensor((batch, *(each.size for each in windows), channels))
    result = Tensor((batch, *(each.result_size for each in windows), channels))
    attributes = f"kernel = {listed(each.window for each in windows)}, {_windowed(windows)}"
    if name == "avg_pool2d":
        return tosa(name, [image, ZERO, ZERO], [result], f"acc_type = f32, {attributes}")
    return tosa(name, [image], [result], attributes)


def adaptive(name: str, draws: Draws) -> Sample:
    image = Tensor((draws.size(), 4, 4, draws.size()))
    result = Tensor((image.shape[0], 2, 2, image.shape[3]))
    windows = [shape(2, 2), shape(2, 2), shape(0, 0, 0, 0)]
    if name == "avg_pool2d_adaptive":
        return tosa(name, [image, ZERO, ZERO, *windows], [result], "acc_type = f32")
    return tosa(name, [image, *windows], [result])


def resize(draws: Draws) -> Sample:
    n, h, w, c = (draws.size() for _ in range(4))
    scale = shape(4, 2, 4, 2)
    result = Tensor((n, 2 * h, 2 * w, c))
    operands: list[Tensor | Constant] = [Tensor((n, h, w, c)), scale, shape(0, 0), shape(2, 2)]
    return tosa("resize", operands, [result], "mode = BILINEAR")


def rescale(draws: Draws) -> Sample:
    x = draws.any("i32", least=1)
    channels = x.shape[-1]
    zeros = [constant(0, Tensor((1,), element)) for element in ("i32", "i8")]
    attributes = (
        "scale32 = true, rounding_mode = SINGLE_ROUND, input_unsigned = false, "
        "output_unsigned = false, per_channel = "
    )
    if draws.chance(0.5):
        scales = [constant(1 << 30, Tensor((1,), "i32")), constant(30, Tensor((1,), "i8"))]
        return tosa("rescale", [x, *scales, *zeros], [x.of("i8")], f"{attributes}false")
    scales = [
        constant([(8 + at) << 26 for at in range(channels)], Tensor((channels,), "i32")),
        constant([30 + at % 2 for at in range(channels)], Tensor((channels,), "i8")),
    ]
    return tosa("rescale", [x, *scales, *zeros], [x.of("i8")], f"{attributes}true")


def fft2d(draws: Draws) -> Sample:
    x = Tensor((draws.size(), 4, 8))
    return tosa("fft2d", [x, x], [x, x], "inverse = false")


def rfft2d(draws: Draws) -> Sample:
    x = Tensor((draws.size(), 4, 8))
    result = x.sized(2, 5)
    return tosa("rfft2d", [x], [result, result])


def dim(draws: Draws) -> Sample:
    x = draws.any(least=1)
    text = (
        f"%d = tosa.dim %0 {{axis = {draws.dim(x)} : i32}} : ($0) -> !tosa.shape<1>\n"
        "%r = tosa.abs %0 : ($0) -> $r"
    )
    return Sample.of("tosa.dim", [x], text, [x])


def apply_scale(draws: Draws) -> Sample:
    x = draws.any("i32", least=1)
    scales = [constant(1 << 30, x), constant(30, x.of("i8"))]
    return tosa("apply_scale", [x, *scales], [x], "rounding_mode = SINGLE_ROUND")


def variable(name: str, draws: Draws) -> Sample:
    text = "tosa.variable_write @x, %0 : $0\n%r = tosa.variable_read @x : $r"
    x = Tensor((draws.size(), draws.size()))
    declared = f"tosa.variable @x = dense<0.0> : {x}\n"
    return Sample.of(f"tosa.{name}", [x], text, [x], declared)
