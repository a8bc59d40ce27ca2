"""Compiled code of functions whatever they are called, and however they are seen."""

import numpy as np
import pytest

from shard_dialect.abi.lowered_program import Program
from shard_dialect.backends.cpu.machine_code import LEVEL, opt_level, to_llvm
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
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


def calling_twice(depth: int) -> str:
    """@f0, which calls @f1 twice, which calls @f2 twice, and so on; the last one adds one."""
    type_ = "tensor<4xf32>"
    functions = [
        f"""
        func.func {"private" if number else ""} @f{number}(%x: {type_}) -> {type_} {{
          %y = func.call @f{number + 1}(%x) : ({type_}) -> {type_}
          %z = func.call @f{number + 1}(%y) : ({type_}) -> {type_}
          return %z : {type_}
        }}"""
        for number in range(depth)
    ]
    last = f"""
        func.func private @f{depth}(%x: {type_}) -> {type_} {{
          %one = arith.constant dense<1.0> : {type_}
          %y = arith.addf %x, %one : {type_}
          return %y : {type_}
        }}"""
    return "\n".join([*functions, last])


def test_calls_of_calls_are_read_once() -> None:
    with make_context():
        module = Source.of(calling_twice(40)).parse()
        run_pipeline(module, "lower")
        assert Program.read(module.operation, "f0").calls == []


def test_what_is_small_is_no_longer_so_once_others_are_in_it() -> None:
    _, (y,) = run_on(calling_twice(16), [np.zeros(4, np.float32)], "f0")
    np.testing.assert_array_equal(y, 2.0**16)


def test_a_level_of_llvm_is_a_number_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LEVEL, raising=False)
    assert opt_level() == 2
    for level in ("0", "3"):
        monkeypatch.setenv(LEVEL, level)
        _, (y,) = run_on(calling_twice(2), [np.zeros(4, np.float32)], "f0")
        np.testing.assert_array_equal(y, 4.0)
    monkeypatch.setenv(LEVEL, "fast")
    with pytest.raises(ShardError, match=f"{LEVEL} must be one of 0, 1, 2, 3, found 'fast'"):
        run_on(calling_twice(2), entry="f0")


def test_long_functions_are_compiled_in_pieces() -> None:
    """Each product, which is a call, reads what earlier ones have written, in other pieces."""
    type_ = "tensor<8x8xf64>"
    factors = [n - n % 3 if n % 7 == 0 else None for n in range(300)]
    products = "\n".join(
        f"""%e{n} = tensor.empty() : {type_}
        %i{n} = linalg.fill ins(%zero : f64) outs(%e{n} : {type_}) -> {type_}
        %x{n + 1} = linalg.matmul ins(%x{n}, %{"y" if by is None else f"x{by}"} :
          {type_}, {type_}) outs(%i{n} : {type_}) -> {type_}"""
        for n, by in enumerate(factors)
    )
    text = f"""
    func.func @f(%x0: {type_}, %y: {type_}) -> {type_} {{
      %zero = arith.constant 0.0 : f64
      {products}
      return %x300 : {type_}
    }}"""
    y = np.roll(np.eye(8), 1, 0)
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "lower")
        to_llvm(module, "f")
        assert str(module).count("@mesh.piece.") == 2 * 2  # a call of each, too
    (x, _), (found,) = run_on(text, [np.roll(y, 1, 1), y], "f")
    values = [x]
    for n, by in enumerate(factors):
        values.append(values[n] @ (y if by is None else values[by]))
    np.testing.assert_array_equal(found, values[-1])
