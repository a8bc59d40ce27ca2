"""Sums and products are accumulated in wider elements and rounded once: their error is a rounding.

The numbers are positive, so that a relative error says something; numpy adds them in f64.
"""

import itertools
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.cpu.machine_code import generate
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.communicators.join_shards import join
from shard_dialect.runtime.executable import Alone
from shard_dialect.testing import compile_unsharded

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
HALF_A_UNIT = {name: float(ml_dtypes.finfo(dtype).eps) / 2 for name, dtype in DTYPES.items()}


def positive(shape: tuple[int, ...], element: str, seed: int = 0) -> Array:
    """Sums of as many as there are lie between 1/2 and 1, which f16 has, too."""
    numbers = np.random.default_rng(seed).uniform(0.5, 1.0, shape)
    return (numbers / max(shape)).astype(DTYPES[element])


def error_of(text: str, inputs: list[Array], expected: Callable[..., Array]) -> float:
    (found,) = compile_unsharded(text).run(inputs, Alone())
    right = expected(*(each.astype(np.float64) for each in inputs))
    return float(np.max(np.abs(found.astype(np.float64) / right - 1)))


def summed(shape: str, result: str, element: str, dims: str) -> str:
    return f"""
    func.func @main(%x: tensor<{shape}x{element}>) -> tensor<{result}{element}> {{
      %c = stablehlo.constant dense<0.0> : tensor<{element}>
      %r = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [{dims}]
        : (tensor<{shape}x{element}>, tensor<{element}>) -> tensor<{result}{element}>
      return %r : tensor<{result}{element}>
    }}"""


@pytest.mark.parametrize(
    ("element", "length"),
    [
        *itertools.product(["f32", "bf16"], [100, 10_000, 1_000_000, 10_000_000]),
        *[("f16", 100), ("f16", 10_000)],  # of more the numbers would be less than f16 has
    ],
)
def test_the_error_of_a_sum_does_not_grow_with_its_length(element: str, length: int) -> None:
    bound = 1.1 * HALF_A_UNIT[element] if length >= 1024 else 4 * HALF_A_UNIT[element]
    row, columns = positive((length,), element), positive((length, 3), element)
    assert error_of(summed(f"{length}", "", element, "0"), [row], np.sum) < bound
    text = summed(f"{length}x3", "3x", element, "0")
    assert error_of(text, [columns], lambda x: x.sum(0)) < bound


@pytest.mark.parametrize("element", ["bf16", "f16"])
@pytest.mark.parametrize("depth", [7, 512, 5000])
def test_products_of_narrow_floats_are_rounded_once(element: str, depth: int) -> None:
    x, y = positive((2, 5, depth), element), positive((2, depth, 3), element, 1)
    text = f"""
    func.func @main(%x: tensor<2x5x{depth}x{element}>, %y: tensor<2x{depth}x3x{element}>)
        -> tensor<2x5x3x{element}> {{
      %r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1]
        : (tensor<2x5x{depth}x{element}>, tensor<2x{depth}x3x{element}>)
        -> tensor<2x5x3x{element}>
      return %r : tensor<2x5x3x{element}>
    }}"""
    y = (y.astype(np.float32) * depth).astype(y.dtype)
    assert error_of(text, [x, y], np.matmul) < 1.1 * HALF_A_UNIT[element]


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_convolutions_of_narrow_floats_are_rounded_once(element: str) -> None:
    x, w = positive((1, 40, 16), element), positive((16, 16, 8), element, 1)
    w = (w.astype(np.float32) * 16).astype(w.dtype)
    text = f"""
    func.func @main(%x: tensor<1x40x16x{element}>, %w: tensor<16x16x8x{element}>)
        -> tensor<1x25x8x{element}> {{
      %r = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
        window = {{stride = [1]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<1x40x16x{element}>, tensor<16x16x8x{element}>) -> tensor<1x25x8x{element}>
      return %r : tensor<1x25x8x{element}>
    }}"""

    def convolved(x: Array, w: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(x[0], 16, axis=0)
        return np.einsum("tik,kio->to", windows, w)[None]

    assert error_of(text, [x, w], convolved) < 1.1 * HALF_A_UNIT[element]


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_windows_of_narrow_floats_are_rounded_once(element: str) -> None:
    text = f"""
    func.func @main(%x: tensor<900x{element}>) -> tensor<301x{element}> {{
      %c = stablehlo.constant dense<0.0> : tensor<{element}>
      %r = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: 600>}}> ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %s = stablehlo.add %a, %b : tensor<{element}>
        stablehlo.return %s : tensor<{element}>
      }}) : (tensor<900x{element}>, tensor<{element}>) -> tensor<301x{element}>
      return %r : tensor<301x{element}>
    }}"""
    found = error_of(
        text,
        [positive((900,), element)],
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 600).sum(1),
    )
    assert found < 1.1 * HALF_A_UNIT[element]


def test_a_long_product_of_vectors_is_as_exact_as_one_of_blocks() -> None:
    n = 10_000_000
    text = f"""
    func.func @main(%x: tensor<{n}xf32>, %y: tensor<{n}xf32>) -> tensor<f32> {{
      %r = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
        : (tensor<{n}xf32>, tensor<{n}xf32>) -> tensor<f32>
      return %r : tensor<f32>
    }}"""
    x = positive((n,), "f32") * np.float32(n)
    assert error_of(text, [x, x], np.dot) < 1e-5


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_parts_of_many_devices_are_joined_in_f32(element: str) -> None:
    """One after the other in bf16, 256 and 1 would be 256."""
    parts = np.ones((260, 4), DTYPES[element])
    into = np.empty(4, parts.dtype)
    join(parts, into, "sum")
    np.testing.assert_array_equal(into, np.full(4, 260, parts.dtype))
    join(parts, into, "average")
    np.testing.assert_array_equal(into, np.ones(4, parts.dtype))


def test_of_bf16_the_bits_alone_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without instructions for it, LLVM would call functions of a library that is not there."""
    text = """
    func.func @main(%x: tensor<8x16xbf16>, %w: tensor<16x8xbf16>) -> tensor<8x8xbf16> {
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<8x16xbf16>, tensor<16x8xbf16>) -> tensor<8x8xbf16>
      %z = stablehlo.tanh %y : tensor<8x8xbf16>
      %p = stablehlo.compare LT, %y, %z : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xi1>
      %r = stablehlo.select %p, %y, %z : tensor<8x8xi1>, tensor<8x8xbf16>
      return %r : tensor<8x8xbf16>
    }"""
    values = 0

    def look(module: ir.Module, _: str) -> None:
        nonlocal values
        for op in walk(module.operation):
            assert not any(isinstance(each.type, ir.BF16Type) for each in op.results), str(op)
            values += len(op.results)

    monkeypatch.setattr("shard_dialect.backends.cpu.machine_code.Engine", look)
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "lower")
        generate(module, "main")
    assert values > 50


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_f64_is_rounded_once_to_narrow_floats(element: str) -> None:
    text = f"""
    func.func @main(%x: tensor<4102xf64>) -> tensor<4102x{element}> {{
      %r = stablehlo.convert %x : (tensor<4102xf64>) -> tensor<4102x{element}>
      return %r : tensor<4102x{element}>
    }}"""
    numbers, right = near_ties(DTYPES[element])
    (found,) = compile_unsharded(text).run([numbers], Alone())
    np.testing.assert_array_equal(found.astype(np.float32), right.astype(np.float32))


def near_ties(dtype: type) -> tuple[Array, Array]:
    """Numbers by the middle of two neighbours, nearer to it than f32 can tell, and the nearest."""
    draw = np.random.default_rng(0)
    bits = draw.integers(0x2000, 0x4000, 4096).astype(np.uint16)
    lower, upper = bits.view(dtype), (bits + np.uint16(1)).view(dtype)
    middle = (lower.astype(np.float64) + upper.astype(np.float64)) / 2
    side = draw.choice([-1, 0, 1], 4096)
    even = np.where(bits % 2 == 0, lower, upper)
    right = np.where(side < 0, lower, np.where(side > 0, upper, even))
    signs = draw.choice([-1.0, 1.0], 4096)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300])
    numbers = np.concatenate([signs * middle * (1 + side * 1e-14), special])
    with np.errstate(over="ignore"):
        return numbers, np.concatenate([signs.astype(dtype) * right, special.astype(dtype)])
