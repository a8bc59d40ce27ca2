"""Kernels: what is alike is one function, however often a program computes it."""

import numpy as np
import pytest

from shard_dialect.backends.cpu.machine_code import generate
from shard_dialect.ir.context import make_context
from shard_dialect.ir.function import name_of
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.runtime.alone import run_on


def functions_of(text: str) -> dict[str, int]:
    """The functions that LLVM gets, but for those around the program, and their numbers of ops."""
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "lower")
        generate(module, "main")
        return {
            name_of(op): len(walk(op))
            for op in operations(body(module.operation))
            if op.name == "llvm.func" and len(op.regions[0].blocks) and "bind" not in name_of(op)
        }


def layers(number: int) -> str:
    """Each a product, a softmax of its rows, and what is added to them."""
    x, w, row = "tensor<16x32xf32>", "tensor<32x32xf32>", "tensor<16xf32>"
    weights = ", ".join(f"%w{layer}: {w}" for layer in range(number))
    lines = []
    for layer in range(number):
        lines += [
            f"%p{layer} = stablehlo.dot_general %x{layer}, %w{layer}, "
            f"contracting_dims = [1] x [0] : ({x}, {w}) -> {x}",
            f"%e{layer} = stablehlo.exponential %p{layer} : {x}",
            f"%z{layer} = stablehlo.constant dense<0.0> : tensor<f32>",
            f"%s{layer} = stablehlo.reduce(%e{layer} init: %z{layer}) applies stablehlo.add "
            f"across dimensions = [1] : ({x}, tensor<f32>) -> {row}",
            f"%b{layer} = stablehlo.broadcast_in_dim %s{layer}, dims = [0] : ({row}) -> {x}",
            f"%d{layer} = stablehlo.divide %e{layer}, %b{layer} : {x}",
            f"%x{layer + 1} = stablehlo.add %d{layer}, %x{layer} : {x}",
        ]
    inside = "\n".join(lines)
    return f"func.func @main(%x0: {x}, {weights}) -> {x} {{\n{inside}\nreturn %x{number} : {x}\n}}"


def test_more_layers_have_no_more_kernels() -> None:
    two, four, eight = (functions_of(layers(number)) for number in (2, 4, 8))
    assert len(two) == len(four) == len(eight) > 1
    kernels = {name for name in two if name.startswith("mesh.kernel")}
    assert {name: four[name] for name in kernels} == {name: eight[name] for name in kernels}


def test_layers_compute_what_they_are_written_for() -> None:
    (x, *weights), (y,) = run_on(layers(3))
    for w in weights:
        power = np.exp(x @ w)
        x = power / power.sum(axis=1, keepdims=True) + x
    np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-6)


def rows(number: int) -> str:
    """Each row of %x is a square of that of %y."""
    x, row = "tensor<8x64xf32>", "tensor<64xf32>"
    one = "tensor<1x64xf32>"
    lines = [
        f"""
        %r{at} = tensor.extract_slice %y[{at}, 0] [1, 64] [1, 1] : {x} to {row}
        %q{at} = arith.mulf %r{at}, %r{at} : {row}
        %o{at} = tensor.expand_shape %q{at} [[0, 1]] output_shape [1, 64] : {row} into {one}
        %x{at + 1} = tensor.insert_slice %o{at} into %x{at}[{at}, 0] [1, 64] [1, 1] : {one} into {x}
        """
        for at in range(number)
    ]
    return (
        f"func.func @main(%x0: {x}, %y: {x}) -> {x} {{{''.join(lines)} return %x{number} : {x} }}"
    )


def test_rows_of_one_buffer_are_alike_wherever_they_begin() -> None:
    assert len(functions_of(rows(3))) == len(functions_of(rows(6)))
    (x, y), (z,) = run_on(rows(6))
    np.testing.assert_array_equal(z, np.concatenate([y[:6] ** 2, x[6:]]))


def test_other_constants_make_other_kernels() -> None:
    type_ = "tensor<64xf32>"
    text = f"""
    func.func @main(%x: {type_}) -> ({type_}, {type_}) {{
      %a = arith.constant dense<2.0> : {type_}
      %b = arith.constant dense<3.0> : {type_}
      %y = arith.mulf %x, %a : {type_}
      %z = arith.mulf %x, %b : {type_}
      return %y, %z : {type_}, {type_}
    }}"""
    (x,), (y, z) = run_on(text)
    np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(z, x * 3)


def chain(number: int) -> str:
    x = "tensor<64x64xf32>"
    lines = [f"%x{at + 1} = arith.addf %x{at}, %w : {x}" for at in range(number)]
    text = "\n".join(lines)
    return f"func.func @main(%x0: {x}, %w: {x}) -> {x} {{\n{text}\nreturn %x{number} : {x}\n}}"


@pytest.mark.parametrize("number", [10, 1000])
def test_functions_are_of_bounded_size(number: int) -> None:
    assert max(functions_of(chain(number)).values()) < 1500
    (x, w), (y,) = run_on(chain(number))
    for _ in range(number):
        x = x + w
    np.testing.assert_array_equal(y, x)


def test_a_buffer_freed_in_a_branch_stays_there() -> None:
    x = "tensor<64xf32>"
    text = f"""
    func.func @main(%x: {x}, %n: tensor<i1>) -> {x} {{
      %y = "stablehlo.if"(%n) ({{
        %a = stablehlo.sine %x : {x}
        %b = stablehlo.reverse %a, dims = [0] : {x}
        stablehlo.return %b : {x}
      }}, {{
        stablehlo.return %x : {x}
      }}) : (tensor<i1>) -> {x}
      return %y : {x}
    }}"""
    for is_taken in (False, True):
        given = [np.arange(64, dtype=np.float32), np.array(is_taken)]
        (x_, _), (y,) = run_on(text, given)
        expected = np.sin(x_)[::-1] if is_taken else x_
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
