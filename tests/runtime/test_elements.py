"""Unsigned and complex elements: what runs, sharded and not, is what numpy computes."""

import numpy as np
import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ir.source import Source
from shard_dialect.runtime.arrays import Array, random_inputs
from shard_dialect.runtime.compile import compile_sharded
from shard_dialect.runtime.world import InProcess


def results_of(text: str) -> tuple[list[Array], list[Array]]:
    """The inputs that are drawn, and what the devices of the program make of them."""
    with make_context():
        executable = compile_sharded(Source.of(text))
    program = executable.program
    inputs = random_inputs([each.whole for each in program.arguments], 0)
    pieces = [program.scatter(inputs, rank) for rank in range(program.devices)]
    world = InProcess(program.devices)
    return inputs, program.gather(world.gather(world.run(executable, pieces)))


def cut_in_rows(element: str, result: str, ops: str) -> str:
    return f"""
    shard.grid @g(shape = 4)
    func.func @main(%a: tensor<8x5x{element}> {{mesh.sharding = #mesh.shard<@g, [[0], []]>}},
                    %b: tensor<8x5x{element}>) -> tensor<{result}> {{
      {ops}
      return %r : tensor<{result}>
    }}"""


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_unsigned_integers(width: int) -> None:
    element = f"ui{width}"
    t, dtype = f"tensor<8x5x{element}>", np.dtype(f"u{width // 8}")
    ops = f"""
      %one = stablehlo.constant dense<1> : {t}
      %d = stablehlo.maximum %b, %one : {t}
      %q = stablehlo.divide %a, %d : {t}
      %m = stablehlo.minimum %a, %b : {t}
      %s = stablehlo.shift_right_logical %a, %one : {t}
      %p = stablehlo.compare LT, %a, %b : ({t}, {t}) -> tensor<8x5xi1>
      %x = stablehlo.select %p, %q, %s : tensor<8x5xi1>, {t}
      %r = stablehlo.add %x, %m : {t}"""
    (a, b), (found,) = results_of(cut_in_rows(element, f"8x5x{element}", ops))
    assert (a > 2 ** (width - 1)).any()
    expected = np.where(a < b, a // np.maximum(b, 1), a >> 1) + np.minimum(a, b)
    assert found.dtype == expected.dtype == dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "by"), [("add", np.add), ("maximum", np.maximum), ("or", np.bitwise_or)]
)
def test_reductions_of_unsigned_integers(name: str, by: np.ufunc) -> None:
    ops = f"""
      %zero = stablehlo.constant dense<0> : tensor<ui32>
      %r = stablehlo.reduce(%a init: %zero) applies stablehlo.{name} across dimensions = [0]
        : (tensor<8x5xui32>, tensor<ui32>) -> tensor<5xui32>"""
    (a, _), (found,) = results_of(cut_in_rows("ui32", "5xui32", ops))
    np.testing.assert_array_equal(found, by.reduce(a, axis=0, dtype=a.dtype))


def test_constants_and_conversions_of_unsigned_integers() -> None:
    ops = """
      %large = stablehlo.constant dense<[0, 1, 4000000000, 4294967295, 7]> : tensor<5xui32>
      %wide = stablehlo.broadcast_in_dim %large, dims = [1] : (tensor<5xui32>) -> tensor<8x5xui32>
      %s = stablehlo.add %a, %wide : tensor<8x5xui32>
      %r = stablehlo.convert %s : (tensor<8x5xui32>) -> tensor<8x5xf64>"""
    (a, _), (found,) = results_of(cut_in_rows("ui32", "8x5xf64", ops))
    large = np.array([0, 1, 4000000000, 4294967295, 7], np.uint32)
    np.testing.assert_array_equal(found, (a + large).astype(np.float64))


def test_complex_numbers() -> None:
    t = "tensor<8x5xcomplex<f32>>"
    ops = f"""
      %p = stablehlo.multiply %a, %b : {t}
      %r = stablehlo.dot_general %p, %b, contracting_dims = [0] x [0]
        : ({t}, {t}) -> tensor<5x5xcomplex<f32>>"""
    (a, b), (found,) = results_of(cut_in_rows("complex<f32>", "5x5xcomplex<f32>", ops))
    assert a.imag.any()
    np.testing.assert_allclose(found, (a * b).T @ b, rtol=1e-4, atol=1e-4)
