"""Samples of `tosa` ops. Shapes, zero points, and tables are constants beside the op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
_NO_ROUND = "round = false"
_FLOAT_UNARY = "abs ceil cos erf exp floor identity log reciprocal rsqrt sigmoid sin tanh".split()
_FLOAT_BINARY = "add maximum minimum pow sub".split()
_INTEGER_BINARY = "bitwise_and bitwise_or bitwise_xor".split()
_COMPARED = "equal greater greater_equal".split()
_LOGICAL = "logical_and logical_or logical_xor".split()
_SHIFTS = {
    "arithmetic_right_shift": _NO_ROUND, "intdiv": "", "logical_left_shift": "",
    "logical_right_shift": "",
}  # fmt: skip


def _broadcast(draws: Draws, x: Tensor) -> Tensor:
    """As `x`, but that some dimensions may be of size 1."""
    return Tensor(tuple(1 if draws.chance(0.25) else size for size in x.shape), x.element)


def _elementwise(name: str, count: int, element: str, result: str) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        x = draws.any(element, least=1)
        rest = [_broadcast(draws, x) for _ in range(count - 1)]
        return tosa(name, [x, *rest], [x.of(result)])

    return draw


def _shifted(name: str, attributes: str) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        x = draws.any("i32", least=1)
        return tosa(name, [x, constant(3, x)], [x], attributes)

    return draw


def _cast(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("cast", [x], [x.of("i32")])


def _clamp(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("clamp", [x], [x], "min_val = -0.5 : f32, max_val = 0.5 : f32")


def _of_integers(name: str, element: str) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        x = draws.any(element, least=1)
        return tosa(name, [x], [x])

    return draw


def _const(draws: Draws) -> Sample:
    result = Tensor((draws.size(), draws.size()))
    rows, columns = result.shape
    values = [[float(row - column) for column in range(columns)] for row in range(rows)]
    text = f'%r = "tosa.const"() {{values = {dense(values, result)}}} : () -> $r'
    return Sample.of("tosa.const", [], text, [result])


def _mul(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("mul", [x, _broadcast(draws, x), constant(0, Tensor((1,), "i8"))], [x])


def _negate(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("negate", [x, ZERO, ZERO], [x])


def _select(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("select", [_broadcast(draws, x).of("i1"), x, _broadcast(draws, x)], [x])


def _table(draws: Draws) -> Sample:
    x = draws.any("i8", least=1)
    return tosa("table", [x, constant(list(range(-128, 128)), Tensor((256,), "i8"))], [x])


def _reduce(name: str) -> Callable[[Draws], Sample]:
    elements = ("i1",) if name in ("all", "any") else ("f32", "f32", "i32")

    def draw(draws: Draws) -> Sample:
        element = "f32" if name == "product" else draws.pick(*elements)
        x = draws.any(element, least=1)
        dim = draws.dim(x)
        attributes = f"axis = {dim} : i32"
        if element == "f32" and name in ("max", "min") and draws.chance(0.2):
            attributes += ", nan_mode = IGNORE"
        return tosa(f"reduce_{name}", [x], [x.sized(dim, 1)], attributes)

    return draw


def _argmax(draws: Draws) -> Sample:
    x = draws.any(least=1)
    dim = draws.dim(x)
    return tosa("argmax", [x], [x.without(dim).of("i32")], f"axis = {dim} : i32")


def _concat(draws: Draws) -> Sample:
    x = draws.any(least=1)
    dim = draws.dim(x)
    y = x.sized(dim, draws.pick(x.shape[dim], draws.size()))
    result = x.sized(dim, x.shape[dim] + y.shape[dim])
    return tosa("concat", [x, y], [result], f"axis = {dim} : i32")


def _pad(draws: Draws) -> Sample:
    x = draws.any(least=1)
    edges = [draws.pick(0, 0, 1, 3) for _ in range(2 * len(x.shape))]
    sizes = zip(x.shape, edges[::2], edges[1::2], strict=True)
    return tosa("pad", [x, shape(*edges), ZERO], [Tensor(tuple(map(sum, sizes)))])


def _reshape(draws: Draws) -> Sample:
    x = draws.any(least=1)
    result = draws.pick(
        (prod(x.shape),), (x.shape[0], prod(x.shape[1:])), (prod(x.shape[:-1]), x.shape[-1]),
        (1, *x.shape), tuple(reversed(x.shape)),
    )  # fmt: skip
    return tosa("reshape", [x, shape(*result)], [Tensor(result)])


def _reverse(draws: Draws) -> Sample:
    x = draws.any(least=1)
    return tosa("reverse", [x], [x], f"axis = {draws.dim(x)} : i32")


def _slice(draws: Draws) -> Sample:
    x = draws.any(least=1)
    starts = [draws.pick(0, 0, draws.number(0, size - 1)) for size in x.shape]
    sizes = [
        draws.pick(size - start, draws.number(1, size - start))
        for size, start in zip(x.shape, starts, strict=True)
    ]
    return tosa("slice", [x, shape(*starts), shape(*sizes)], [Tensor(tuple(sizes))])


def _tile(draws: Draws) -> Sample:
    x = draws.any(least=1)
    times = [draws.pick(1, 1, 2, 3) for _ in x.shape]
    result = tuple(size * count for size, count in zip(x.shape, times, strict=True))
    return tosa("tile", [x, shape(*times)], [Tensor(result)])


def _transpose(draws: Draws) -> Sample:
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


def _gather(draws: Draws) -> Sample:
    x = draws.fits("f32", None, None, None)
    count, rows, channels = x.shape
    positions = draws.size()
    result = Tensor((count, positions, channels))
    return tosa("gather", [x, _indices(draws, count, positions, rows)], [result])


def _row_gather(draws: Draws) -> Sample:
    x = draws.fits("f32", None, None, None)
    count, _, channels = x.shape
    at, two = Tensor((count, draws.size()), "i32"), constant(2, Tensor((1,), "i32"))
    return tosa("row_gather", [x, at, two], [Tensor((count, 2 * at.shape[1], channels))])


def _scatter(draws: Draws) -> Sample:
    x = draws.fits("f32", None, None, None)
    count, rows, channels = x.shape
    positions = draws.number(1, min(rows, 4))
    update = Tensor((count, positions, channels))
    return tosa("scatter", [x, _indices(draws, count, positions, rows, distinct=True), update], [x])


def _matmul(name: str) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        a = draws.fits("f32", None, None, None)
        n, _, k = a.shape
        b = draws.fits("f32", n, k, None) if name == "matmul" else draws.fits("f32", n, None, k)
        w = b.shape[2 if name == "matmul" else 1]
        return tosa(name, [a, b, ZERO, ZERO], [Tensor((n, a.shape[1], w))])

    return draw


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


def _convolution(name: str, rank: int) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        windows = [_Window.drawn(draws) for _ in range(rank)]
        batch, channels, features = draws.pick(2, 4, 3), draws.pick(4, 3), draws.pick(8, 4, 5)
        space = [
            tuple(getattr(each, what) for each in windows)
            for what in ("size", "window", "result_size")
        ]
        kernel = Tensor((features, *space[1], channels))
        if name == "depthwise_conv2d":
            features *= channels
            kernel = Tensor((*space[1], channels, features // channels))
        image, result = Tensor((batch, *space[0], channels)), Tensor((batch, *space[2], features))
        attributes = f"acc_type = f32, dilation = {listed([1] * rank)}, {_windowed(windows)}"
        return tosa(name, [image, kernel, _bias(draws, features), ZERO, ZERO], [result], attributes)

    return draw


def _transpose_conv2d(draws: Draws) -> Sample:
    h, w, batch, channels, features = (
        draws.size(),
        draws.size(),
        2,
        draws.pick(4, 3),
        draws.pick(8, 5),
    )
    image, kernel = Tensor((batch, h, w, channels)), Tensor((features, 3, 3, channels))
    result = Tensor((batch, 2 * h + 1, 2 * w + 1, features))
    attributes = f"acc_type = f32, out_pad = {listed([0] * 4)}, stride = {listed([2, 2])}"
    return tosa(
        "transpose_conv2d",
        [image, kernel, _bias(draws, features), ZERO, ZERO],
        [result],
        attributes,
    )


def _pool(name: str) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        windows = [_Window.drawn(draws) for _ in range(2)]
        batch, channels = draws.pick(2, 4, 3), draws.pick(4, 3)
        image = Tensor((batch, *(each.size for each in windows), channels))
        result = Tensor((batch, *(each.result_size for each in windows), channels))
        attributes = f"kernel = {listed(each.window for each in windows)}, {_windowed(windows)}"
        if name == "avg_pool2d":
            return tosa(name, [image, ZERO, ZERO], [result], f"acc_type = f32, {attributes}")
        return tosa(name, [image], [result], attributes)

    return draw


def _adaptive(name: str) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        image = Tensor((draws.size(), 4, 4, draws.size()))
        result = Tensor((image.shape[0], 2, 2, image.shape[3]))
        windows = [shape(2, 2), shape(2, 2), shape(0, 0, 0, 0)]
        if name == "avg_pool2d_adaptive":
            return tosa(name, [image, ZERO, ZERO, *windows], [result], "acc_type = f32")
        return tosa(name, [image, *windows], [result])

    return draw


def _resize(draws: Draws) -> Sample:
    n, h, w, c = (draws.size() for _ in range(4))
    scale = shape(4, 2, 4, 2)
    result = Tensor((n, 2 * h, 2 * w, c))
    return tosa(
        "resize",
        [Tensor((n, h, w, c)), scale, shape(0, 0), shape(2, 2)],
        [result],
        "mode = BILINEAR",
    )


def _rescale(draws: Draws) -> Sample:
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


def _fft2d(draws: Draws) -> Sample:
    x = Tensor((draws.size(), 4, 8))
    return tosa("fft2d", [x, x], [x, x], "inverse = false")


def _rfft2d(draws: Draws) -> Sample:
    x = Tensor((draws.size(), 4, 8))
    result = x.sized(2, 5)
    return tosa("rfft2d", [x], [result, result])


def _dim(draws: Draws) -> Sample:
    x = draws.any(least=1)
    text = (
        f"%d = tosa.dim %0 {{axis = {draws.dim(x)} : i32}} : ($0) -> !tosa.shape<1>\n"
        "%r = tosa.abs %0 : ($0) -> $r"
    )
    return Sample.of("tosa.dim", [x], text, [x])


def _apply_scale(draws: Draws) -> Sample:
    x = draws.any("i32", least=1)
    scales = [constant(1 << 30, x), constant(30, x.of("i8"))]
    return tosa("apply_scale", [x, *scales], [x], "rounding_mode = SINGLE_ROUND")


def _variable(name: str, text: str) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        x = Tensor((draws.size(), draws.size()))
        declared = f"tosa.variable @x = dense<0.0> : {x}\n"
        return Sample.of(f"tosa.{name}", [x], text, [x], declared)

    return draw


_WRITE = "tosa.variable_write @x, %0 : $0\n"
_READ = "%r = tosa.variable_read @x : $r"
SAMPLES: dict[str, Callable[[Draws], Sample]] = {
    f"tosa.{name}": function
    for name, function in {
        **{name: _elementwise(name, 1, "f32", "f32") for name in _FLOAT_UNARY},
        **{name: _elementwise(name, 2, "f32", "f32") for name in _FLOAT_BINARY},
        **{name: _elementwise(name, 2, "i32", "i32") for name in _INTEGER_BINARY},
        **{name: _elementwise(name, 2, "f32", "i1") for name in _COMPARED},
        **{name: _elementwise(name, 2, "i1", "i1") for name in _LOGICAL},
        **{name: _shifted(name, said) for name, said in _SHIFTS.items()},
        **{name: _of_integers(name, "i32") for name in ("bitwise_not", "clz")},
        **{f"reduce_{name}": _reduce(name) for name in "all any max min product sum".split()},
        **{name: _matmul(name) for name in ("matmul", "matmul_t")},
        **{name: _pool(name) for name in ("avg_pool2d", "max_pool2d")},
        **{name: _adaptive(name) for name in ("avg_pool2d_adaptive", "max_pool2d_adaptive")},
        "apply_scale": _apply_scale, "argmax": _argmax, "cast": _cast, "clamp": _clamp,
        "concat": _concat, "const": _const,
        "conv2d": _convolution("conv2d", 2), "conv3d": _convolution("conv3d", 3),
        "depthwise_conv2d": _convolution("depthwise_conv2d", 2),
        "dim": _dim, "fft2d": _fft2d, "gather": _gather,
        "logical_not": _of_integers("logical_not", "i1"),
        "mul": _mul, "negate": _negate, "pad": _pad, "rescale": _rescale, "reshape": _reshape,
        "resize": _resize, "reverse": _reverse, "rfft2d": _rfft2d, "row_gather": _row_gather,
        "scatter": _scatter, "select": _select, "slice": _slice, "table": _table, "tile": _tile,
        "transpose": _transpose, "transpose_conv2d": _transpose_conv2d,
        "variable_read": _variable("variable_read", _WRITE + _READ),
        "variable_write": _variable("variable_write", _WRITE + _READ),
    }.items()
}  # fmt: skip
_UPSTREAM = "upstream lowers it to nothing that runs"
NOT_RUN = {
    f"tosa.{name}": _UPSTREAM
    for name in (
        "avg_pool2d_adaptive", "dim", "matmul_t", "max_pool2d_adaptive", "row_gather",
        "variable_read", "variable_write",
    )
}  # fmt: skip
JUMPS = {f"tosa.{name}" for name in "ceil floor log pow reciprocal rsqrt".split()}
MOVES = {
    f"tosa.{name}"
    for name in (
        "concat gather identity negate pad reshape reverse scatter select slice tile transpose"
    ).split()
}
