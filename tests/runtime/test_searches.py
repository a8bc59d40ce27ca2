"""Searches along split dimensions find what numpy finds, at the borders of shards too."""

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.compile import compile_sharded
from tests.runtime.test_elements import run_on_devices

NUMPY = {"max": np.argmax, "min": np.argmin}
DTYPES = {"f32": np.float32, "i32": np.int32, "ui8": np.uint8}
LEAST = {
    ("max", "f32"): "0xFF800000", ("min", "f32"): "0x7F800000",
    ("max", "i32"): "-2147483648", ("min", "i32"): "2147483647",
    ("max", "ui8"): "0", ("min", "ui8"): "255",
}  # fmt: skip


def program(kind: str, element: str, rows: int, columns: int, dim: int, axes: str) -> str:
    """As JAX writes its argmax and argmin."""
    t, i = f"tensor<{element}>", "tensor<i32>"
    x, places = f"tensor<{rows}x{columns}x{element}>", f"tensor<{rows}x{columns}xi32>"
    made = rows if dim else columns
    is_found = f"%found = stablehlo.compare {'GT' if kind == 'max' else 'LT'}, %a, %b"
    found = f"{is_found} : ({t}, {t}) -> tensor<i1>"
    if element == "f32":
        found = f"""{is_found.replace("found", "larger", 1)} : ({t}, {t}) -> tensor<i1>
        %nan = stablehlo.compare NE, %a, %a : ({t}, {t}) -> tensor<i1>
        %found = stablehlo.or %larger, %nan : tensor<i1>"""
    return f"""
    shard.grid @g(shape = 2x2)
    func.func @main(%x: {x} {{mesh.sharding = #mesh.shard<@g, {axes}>}})
        -> (tensor<{made}x{element}>, tensor<{made}xi32>) {{
      %i = stablehlo.iota dim = {dim} : {places}
      %least = stablehlo.constant dense<{LEAST[kind, element]}> : {t}
      %zero = stablehlo.constant dense<0> : {i}
      %r:2 = stablehlo.reduce(%x init: %least), (%i init: %zero) across dimensions = [{dim}]
          : ({x}, {places}, {t}, {i}) -> (tensor<{made}x{element}>, tensor<{made}xi32>)
       reducer(%a: {t}, %b: {t}) (%j: {i}, %k: {i}) {{
        {found}
        %same = stablehlo.compare EQ, %a, %b : ({t}, {t}) -> tensor<i1>
        %before = stablehlo.compare LT, %j, %k : ({i}, {i}) -> tensor<i1>
        %earlier = stablehlo.and %same, %before : tensor<i1>
        %at = stablehlo.or %found, %earlier : tensor<i1>
        %v = stablehlo.select %found, %a, %b : tensor<i1>, {t}
        %p = stablehlo.select %at, %j, %k : tensor<i1>, {i}
        stablehlo.return %v, %p : {t}, {i}
      }}
      return %r#0, %r#1 : tensor<{made}x{element}>, tensor<{made}xi32>
    }}"""


def found(text: str, x: Array) -> list[Array]:
    with make_context():
        executable = compile_sharded(Source.of(text))
    return run_on_devices(executable, [x])


@pytest.mark.parametrize("axes", ["[[0], [1]]", "[[], [0, 1]]", "[[1, 0], []]", "[[1], [0]]"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("element", ["f32", "i32", "ui8"])
def test_the_first_of_equal_elements(element: str, kind: str, dim: int, axes: str) -> None:
    """Of few different ones, in shards of one size (8) and of several (6 in four)."""
    x = np.random.default_rng(5).integers(0, 3, (8, 6)).astype(DTYPES[element])
    x[3, :] = x[:, 2] = 1
    values, places = found(program(kind, element, 8, 6, dim, axes), x)
    np.testing.assert_array_equal(places, NUMPY[kind](x, axis=dim))
    np.testing.assert_array_equal(
        values, np.take_along_axis(x, np.expand_dims(places, dim), dim).squeeze(dim)
    )


@pytest.mark.parametrize("kind", ["max", "min"])
def test_what_is_no_number_and_what_is_infinite(kind: str) -> None:
    x = np.zeros((8, 8), np.float32)
    x[0, 5] = np.nan
    x[1, :] = np.inf
    x[2, :] = -np.inf
    x[3, 3:5] = (np.inf, -np.inf)
    x[4, [2, 6]] = (np.nan, np.inf)
    _, places = found(program(kind, "f32", 8, 8, 1, "[[], [0, 1]]"), x)
    np.testing.assert_array_equal(places, NUMPY[kind](x, axis=1))
