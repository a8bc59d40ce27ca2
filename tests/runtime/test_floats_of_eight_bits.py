"""Our own code computes with floats of eight bits as ml_dtypes and XLA do."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.abi.tensor_types import Array
from tests.conftest import Program
from tests.extras import needs

FORMATS = {
    "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}
RNG = np.random.default_rng(3)
STEP = np.arange(0, 2**32, 2**18, dtype=np.int64)
"""Codes of f32 that floats of eight bits have, too, and those halfway between."""
NUMBERS = {
    "f32": np.concatenate([STEP - 1, STEP, STEP + 1, RNG.integers(0, 2**32, 9999)])
    .astype(np.uint32)
    .view(np.float32),
    "f64": RNG.standard_normal(9999) * np.exp2(RNG.integers(-140, 140, 9999)),
    "f16": np.arange(65536, dtype=np.uint16).view(np.float16),
    "bf16": np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16),
}


def all_codes(name: str) -> Array:
    codes: Array = np.arange(256, dtype=np.uint8).view(FORMATS[name])
    return codes


def assert_same(found: Any, expected: Any) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    of_zeros = [np.signbit(each.astype(np.float64)) for each in (found, expected)]
    numbers = [each.astype(np.float64) for each in (found, expected)]
    np.testing.assert_array_equal(*numbers)
    is_number = ~np.isnan(numbers[0])
    np.testing.assert_array_equal(*(each[is_number] for each in of_zeros))


@pytest.mark.filterwarnings("ignore:.*encountered in cast")
@pytest.mark.parametrize("other", NUMBERS)
@pytest.mark.parametrize("name", FORMATS)
def test_conversions(name: str, other: str) -> None:
    x, codes = NUMBERS[other], all_codes(name)
    wide, narrow = f"tensor<{len(x)}x{other}>", f"tensor<{len(x)}x{name}>"
    program = f"""
    func.func @main(%x: {wide}, %y: tensor<256x{name}>) -> ({narrow}, tensor<256x{other}>) {{
      %0 = stablehlo.convert %x : ({wide}) -> {narrow}
      %1 = stablehlo.convert %y : (tensor<256x{name}>) -> tensor<256x{other}>
      return %0, %1 : {narrow}, tensor<256x{other}>
    }}"""
    rounded, widened = sd.compile(sd.parse(program))(x, codes)
    assert_same(rounded, x.astype(FORMATS[name]))
    assert_same(widened, codes.astype(x.dtype))


OPS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
}


@pytest.mark.filterwarnings("ignore:.*encountered in")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ"])
def test_arithmetic_on_all_pairs(name: str, op: str) -> None:
    x, y = map(np.ravel, np.meshgrid(all_codes(name), all_codes(name)))
    type_ = f"tensor<65536x{name}>"
    program = f"""
    func.func @main(%x: {type_}, %y: {type_}) -> {type_} {{
      %0 = stablehlo.{op} %x, %y : {type_}
      return %0 : {type_}
    }}"""
    expected = OPS[op](x.astype(np.float32), y.astype(np.float32)).astype(FORMATS[name])
    found = sd.compile(sd.parse(program))(x, y)
    if op == "maximum":  # which of two zeros is the larger is not said
        found, expected = (each.astype(np.float32) + np.float32(0) for each in (found, expected))
    assert_same(found, expected)


def test_scaled_products_on_a_grid() -> None:
    """Blocks of rows and columns have scales that are powers of two."""
    program = """
    shard.grid @g(shape = 2x2)
    func.func @main(%x: tensor<8x16xf8E4M3FN> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                    %s: tensor<8xf8E8M0FNU>,
                    %y: tensor<16x4xf8E5M2> {mesh.sharding = #mesh.shard<@g, [[], [1]]>})
        -> (tensor<8x4xf32>, tensor<16x16xf8E4M3FN>) {
      %0 = stablehlo.convert %y : (tensor<16x4xf8E5M2>) -> tensor<16x4xf8E4M3FN>
      %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
        : (tensor<8x16xf8E4M3FN>, tensor<16x4xf8E4M3FN>) -> tensor<8x4xf32>
      %2 = stablehlo.convert %s : (tensor<8xf8E8M0FNU>) -> tensor<8xf32>
      %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<8xf32>) -> tensor<8x4xf32>
      %4 = stablehlo.multiply %1, %3 : tensor<8x4xf32>
      %5 = stablehlo.concatenate %x, %x, dim = 0
        : (tensor<8x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<16x16xf8E4M3FN>
      return %4, %5 : tensor<8x4xf32>, tensor<16x16xf8E4M3FN>
    }"""
    x = RNG.standard_normal((8, 16)).astype(ml_dtypes.float8_e4m3fn)
    y = RNG.standard_normal((16, 4)).astype(ml_dtypes.float8_e5m2)
    scales = np.exp2(RNG.integers(-4, 4, 8)).astype(ml_dtypes.float8_e8m0fnu)
    found, twice = sd.compile(sd.parse(program))(x, scales, y)
    expected = x.astype(np.float32) @ y.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    np.testing.assert_allclose(found, expected * scales.astype(np.float32)[:, None], rtol=1e-5)
    assert_same(twice, np.concatenate([x, x]))


def test_a_sum_is_rounded_once() -> None:
    program = """
    func.func @main(%x: tensor<4x256xf8E4M3FN>) -> tensor<4xf8E4M3FN> {
      %zero = stablehlo.constant dense<0.0> : tensor<f8E4M3FN>
      %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<4x256xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<4xf8E4M3FN>
      return %0 : tensor<4xf8E4M3FN>
    }"""
    x = np.ones((4, 256), ml_dtypes.float8_e4m3fn)
    assert_same(sd.compile(sd.parse(program))(x), np.full(4, 256, ml_dtypes.float8_e4m3fn))


@needs("jax")
@pytest.mark.parametrize("backend", ["devices", "xla"])
def test_a_check_allows_their_rounding(run: Program, tmp_path: Path, backend: str) -> None:
    program = tmp_path / "in.mlir"
    program.write_text("""
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<8x8xf8E4M3FN> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
        -> (tensor<8xf8E4M3FN>, tensor<8x8xf32>) {
      %zero = stablehlo.constant dense<0.0> : tensor<f8E4M3FN>
      %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<8x8xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<8xf8E4M3FN>
      %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1]
        : (tensor<8x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>) -> tensor<8x8xf32>
      return %0, %1 : tensor<8xf8E4M3FN>, tensor<8x8xf32>
    }""")
    done = run(program, f"--backend={backend}", "--check")
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout
