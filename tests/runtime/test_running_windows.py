"""Cumulative sums, products and extremes are one pass over the elements, and equal numpy's."""

from typing import Any

import numpy as np
import pytest

import shard_dialect as sd

OPS: dict[str, tuple[str, str, Any]] = {
    "sum": ("add", "0", np.add),
    "product": ("multiply", "1", np.multiply),
    "max": ("maximum", "", np.maximum),
    "min": ("minimum", "", np.minimum),
}
PROGRAM = """
func.func @main(%x: tensor<{shape}x{element}>{sharding}) -> tensor<{shape}x{element}> {{
  %init = stablehlo.constant dense<{init}> : tensor<{element}>
  %r = "stablehlo.reduce_window"(%x, %init) ({{
  ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
    %c = stablehlo.{op} %a, %b : tensor<{element}>
    stablehlo.return %c : tensor<{element}>
  }}) {{window_dimensions = array<i64: {sizes}>, padding = dense<{padding}> : tensor<{rank}x2xi64>}}
    : (tensor<{shape}x{element}>, tensor<{element}>) -> tensor<{shape}x{element}>
  return %r : tensor<{shape}x{element}>
}}
"""
NUMBERS = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "ui8": np.uint8, "i1": np.bool_}
EXTREMES = {
    ("max", "f32"): "0xFF800000",
    ("min", "f32"): "0x7F800000",
    ("max", "i32"): str(-(2**31)),
    ("min", "ui8"): "255",
    ("max", "ui8"): "0",
}


def program(
    shape: tuple[int, ...], dim: int, op: str, element: str, *, to_last: bool, sharding: str = ""
) -> str:
    name, init, _ = OPS[op]
    size = shape[dim]
    sizes = [size if each == dim else 1 for each in range(len(shape))]
    pads = [[0, 0] for _ in shape]
    pads[dim][to_last] = size - 1
    return PROGRAM.format(
        shape="x".join(map(str, shape)),
        element=element,
        sharding=sharding,
        init=EXTREMES.get((op, element), init + ".0" * (element[0] == "f")),
        op=name,
        sizes=", ".join(map(str, sizes)),
        padding=pads,
        rank=len(shape),
    )


def expected(x: np.ndarray, dim: int, op: str, *, to_last: bool) -> np.ndarray:
    given = np.flip(x, dim) if to_last else x
    wide = given.astype(np.float64) if x.dtype == np.float32 else given
    made = OPS[op][2].accumulate(wide, axis=dim, dtype=wide.dtype)
    return (np.flip(made, dim) if to_last else made).astype(x.dtype)


@pytest.mark.parametrize("to_last", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize(
    ("op", "element"),
    [
        ("sum", "f32"),
        ("sum", "f64"),
        ("sum", "i32"),
        ("sum", "ui8"),
        ("product", "f32"),
        ("product", "i32"),
        ("max", "f32"),
        ("max", "i32"),
        ("max", "ui8"),
        ("min", "f32"),
        ("min", "ui8"),
    ],
)
def test_running_windows(op: str, element: str, dim: int, *, to_last: bool) -> None:
    shape = [3, 5, 4]
    shape[dim] = 19
    drawn = np.random.default_rng(dim).uniform(0.5, 2, shape) * 4
    x = drawn.astype(NUMBERS[element])
    text = program(tuple(shape), dim, op, element, to_last=to_last)
    result = sd.run(sd.parse(text), x)
    np.testing.assert_allclose(result, expected(x, dim, op, to_last=to_last), rtol=1e-5)


@pytest.mark.parametrize("to_last", [False, True])
def test_long_sums_do_not_lose_small_elements(*, to_last: bool) -> None:
    x = np.full((2, 4096), 1e-3, np.float32)
    x[:, -1 if to_last else 0] = 1e5
    result = sd.run(sd.parse(program(x.shape, 1, "sum", "f32", to_last=to_last)), x)
    np.testing.assert_allclose(result, expected(x, 1, "sum", to_last=to_last), rtol=1e-7)


def test_time_grows_with_elements_alone() -> None:
    text = program((1, 4096), 1, "sum", "f32", to_last=False)
    lowered = sd.run_pipeline(sd.parse(text), "lower")
    loops = [line for line in str(lowered).splitlines() if "scf.for" in line or "linalg." in line]
    assert len(loops) == 1, lowered  # one loop along the elements, none for each window


@pytest.mark.parametrize("split", ["[0], []", "[], [0]"])
def test_on_devices(split: str) -> None:
    x = np.arange(8 * 24, dtype=np.float32).reshape(8, 24) % 7
    sharding = f" {{mesh.sharding = #mesh.shard<@g, [{split}]>}}"
    text = program(x.shape, 1, "sum", "f32", to_last=False, sharding=sharding)
    module = sd.parse(f"shard.grid @g(shape = 4)\n{text}")
    result = sd.run(module, x)
    np.testing.assert_allclose(result, np.cumsum(x, 1))
