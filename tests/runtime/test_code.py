"""Compiled code of functions whatever they are called, and however they are seen."""

import numpy as np
import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ir.source import Source
from shard_dialect.passes.pipeline import run_pipeline
from shard_dialect.runtime.lowered import Program
from tests.runtime.alone import run_on


@pytest.mark.parametrize("name", ["sin", "mesh.bind", "malloc", "scipy_cblas_dgemm64_", "a b"])
@pytest.mark.parametrize("visibility", ["", "private"])
def test_functions_may_have_any_name(name: str, visibility: str) -> None:
    text = f"""
    func.func {visibility} @"{name}"(%x: tensor<64x64xf64>) -> tensor<64x64xf64> {{
      %y = func.call @"{name}f"(%x) : (tensor<64x64xf64>) -> tensor<64x64xf64>
      %zero = arith.constant 0.0 : f64
      %e = tensor.empty() : tensor<64x64xf64>
      %zeros = linalg.fill ins(%zero : f64) outs(%e : tensor<64x64xf64>) -> tensor<64x64xf64>
      %z = linalg.matmul ins(%y, %x : tensor<64x64xf64>, tensor<64x64xf64>)
        outs(%zeros : tensor<64x64xf64>) -> tensor<64x64xf64>
      return %z : tensor<64x64xf64>
    }}
    func.func @"{name}f"(%x: tensor<64x64xf64>) -> tensor<64x64xf64> {{
      %y = math.sin %x : tensor<64x64xf64>
      return %y : tensor<64x64xf64>
    }}"""
    (x,), (z,) = run_on(text, entry=name)
    np.testing.assert_allclose(z, np.sin(x) @ x, rtol=1e-12, atol=1e-12)


def test_calls_of_calls_are_read_once() -> None:
    function = """
    func.func {} @f{}(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %y = func.call @f{}(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %z = func.call @f{}(%y) : (tensor<4xf32>) -> tensor<4xf32>
      return %z : tensor<4xf32>
    }}"""
    last = (
        "func.func private @f40(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    )
    called = [function.format("private" if n else "", n, n + 1, n + 1) for n in range(40)]
    with make_context():
        module = Source.of("\n".join([*called, last])).parse()
        run_pipeline(module, "lower")
        assert Program.read(module.operation, "f0").calls == []
