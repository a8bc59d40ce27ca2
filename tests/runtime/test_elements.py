"""Unsigned and complex elements: what runs, sharded and not, is what numpy computes."""

import ast
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array, TensorType
from shard_dialect.ir.bindings import spelled
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.array_files import load_inputs
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.compile import compile_sharded
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.random_inputs import random_inputs
from shard_dialect.testing import run_and_check
from tests.extras import needs


def results_of(text: str) -> tuple[list[Array], list[Array]]:
    """The inputs that are drawn, and what the devices of the program make of them."""
    with make_context():
        executable = compile_sharded(Source.of(text))
    inputs = random_inputs([each.global_type for each in executable.program.arguments], 0)
    return inputs, run_on_devices(executable, inputs)


def run_on_devices(executable: Executable, inputs: Sequence[Array]) -> list[Array]:
    program = executable.program
    shards = [program.scatter(inputs, rank) for rank in range(program.devices)]
    world = InProcess(program.devices)
    return program.gather(world.gather(world.run(executable, shards)))


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


@pytest.mark.parametrize("name", ["maximum", "minimum", "multiply"])
@pytest.mark.parametrize("element", ["ui8", "ui16", "ui32", "ui64"])
def test_unsigned_integers_are_joined_where_they_are(element: str, name: str) -> None:
    """In shards that are padded, and from what leaves them alone."""
    whole = 2 ** int(element[2:]) - 1
    start = {"maximum": 0, "minimum": whole, "multiply": 1}[name]
    ops = f"""
      %start = stablehlo.constant dense<{start}> : tensor<{element}>
      %r = stablehlo.reduce(%t init: %start) applies stablehlo.{name} across dimensions = [0]
        : (tensor<7x5x{element}>, tensor<{element}>) -> tensor<5x{element}>"""
    ops = (
        f"%t = stablehlo.slice %a [1:8, 0:5] : (tensor<8x5x{element}>) -> tensor<7x5x{element}>"
        + ops
    )
    (a, _), (found,) = results_of(cut_in_rows(element, f"5x{element}", ops))
    by = {"maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply}[name]
    np.testing.assert_array_equal(found, by.reduce(a[1:], axis=0, dtype=a.dtype))


@pytest.mark.parametrize("name", ["add", "maximum", "minimum"])
@pytest.mark.parametrize("element", ["i2", "i4", "ui2", "ui4"])
def test_integers_of_less_than_a_byte(element: str, name: str) -> None:
    """Sums wrap around, and what is largest depends on the sign; in shards that are padded."""
    bits, is_unsigned = int(element.lstrip("ui")), element.startswith("u")
    low = 0 if is_unsigned else -(2 ** (bits - 1))
    start = {"add": 0, "maximum": low, "minimum": low + 2**bits - 1}[name]
    t = f"tensor<7x5x{element}>"
    ops = f"""
      %start = stablehlo.constant dense<{start}> : tensor<{element}>
      %s = stablehlo.add %a, %b : tensor<8x5x{element}>
      %t = stablehlo.slice %s [1:8, 0:5] : (tensor<8x5x{element}>) -> {t}
      %j = stablehlo.reduce(%t init: %start) applies stablehlo.{name} across dimensions = [0]
        : ({t}, tensor<{element}>) -> tensor<5x{element}>
      %r = stablehlo.convert %j : (tensor<5x{element}>) -> tensor<5xi32>"""
    (a, b), (found,) = results_of(cut_in_rows(element, "5xi32", ops))

    def wrapped(numbers: Array) -> Array:
        return (numbers.astype(np.int32) - low) % 2**bits + low

    parts = wrapped(a.astype(np.int32) + b.astype(np.int32))[1:]
    by = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}[name]
    np.testing.assert_array_equal(found, wrapped(by.reduce(parts, axis=0)))


@pytest.mark.parametrize("name", ["add", "multiply"])
def test_complex_numbers_are_joined_where_they_are(name: str) -> None:
    start = {"add": "(0.0, 0.0)", "multiply": "(1.0, 0.0)"}[name]
    ops = f"""
      %start = stablehlo.constant dense<{start}> : tensor<complex<f64>>
      %r = stablehlo.reduce(%a init: %start) applies stablehlo.{name} across dimensions = [0]
        : (tensor<8x5xcomplex<f64>>, tensor<complex<f64>>) -> tensor<5xcomplex<f64>>"""
    (a, _), (found,) = results_of(cut_in_rows("complex<f64>", "5xcomplex<f64>", ops))
    by = {"add": np.add, "multiply": np.multiply}[name]
    np.testing.assert_allclose(found, by.reduce(a, axis=0), rtol=1e-12)


@pytest.mark.parametrize("op", ["all_reduce", "reduce_scatter", "reduce"])
@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("i8", "i32"), ("ui8", "ui16"), ("i1", "i8"), ("i4", "i8"), ("f32", "f64"), ("bf16", "f32"),
        ("complex<f32>", "complex<f64>"),
    ],
)  # fmt: skip
def test_reductions_to_wider_elements(given: str, made: str, op: str) -> None:
    """Converted before they are added up, as upstream's documentation has it."""
    rows = 1 if op == "reduce_scatter" else 4
    more = {
        "all_reduce": "grid_axes = [0]",
        "reduce_scatter": f"grid_axes = [0] {spelled('scatter_axis')} = 0",
        "reduce": "grid_axes = [0] root = [0]",
    }[op]
    operand, result = f"tensor<4x3x{given}>", f"tensor<{rows}x3x{made}>"
    types = f"({operand}) -> {result}" if op == "reduce" else f"{operand} -> {result}"
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: {operand} {{mesh.argument = tensor<16x3x{given}, #mesh.shard<@g, [[0]]>>}})
        -> ({result} {{mesh.result = tensor<{4 * rows}x3x{made}, #mesh.shard<@g, [[0]]>>}})
        attributes {{mesh.form = "local"}} {{
      %r = shard.{op} %x on @g {more} : {types}
      return %r : {result}
    }}"""
    (x,), (found,) = results_of(text)
    expected = x.reshape(4, 4, 3).astype(found.dtype).sum(axis=0, dtype=found.dtype)
    np.testing.assert_array_equal(found[:4], expected)


def test_an_unsigned_init_is_counted_once_in_what_is_read_again() -> None:
    """What the other devices start from is a constant that the next pass knows again."""
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<6xui32>, %i: tensor<12x1xi32>,
                    %u: tensor<12xui32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
        -> tensor<6xui32> {
      %0 = "stablehlo.scatter"(%x, %i, %u) ({
      ^bb0(%a: tensor<ui32>, %b: tensor<ui32>):
        %c = stablehlo.or %a, %b : tensor<ui32>
        stablehlo.return %c : tensor<ui32>
      }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
            scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
        : (tensor<6xui32>, tensor<12x1xi32>, tensor<12xui32>) -> tensor<6xui32>
      return %0 : tensor<6xui32>
    }"""
    outcome = run_and_check(text, "propagate", "materialize", "partition", "lower")
    assert outcome.verdict.passed, outcome.verdict.failure
    assert outcome.collectives["all_reduce"]


def test_a_sum_of_complex_numbers_that_starts_from_an_argument() -> None:
    ops = """
      %start = stablehlo.slice %b [0:1, 0:1]
        : (tensor<8x5xcomplex<f64>>) -> tensor<1x1xcomplex<f64>>
      %one = stablehlo.reshape %start : (tensor<1x1xcomplex<f64>>) -> tensor<complex<f64>>
      %r = stablehlo.reduce(%a init: %one) applies stablehlo.add across dimensions = [0]
        : (tensor<8x5xcomplex<f64>>, tensor<complex<f64>>) -> tensor<5xcomplex<f64>>"""
    (a, b), (found,) = results_of(cut_in_rows("complex<f64>", "5xcomplex<f64>", ops))
    np.testing.assert_allclose(found, a.sum(axis=0) + b[0, 0], rtol=1e-12)


def test_constants_and_conversions_of_unsigned_integers() -> None:
    ops = """
      %large = stablehlo.constant dense<[0, 1, 4000000000, 4294967295, 7]> : tensor<5xui32>
      %wide = stablehlo.broadcast_in_dim %large, dims = [1] : (tensor<5xui32>) -> tensor<8x5xui32>
      %s = stablehlo.add %a, %wide : tensor<8x5xui32>
      %r = stablehlo.convert %s : (tensor<8x5xui32>) -> tensor<8x5xf64>"""
    (a, _), (found,) = results_of(cut_in_rows("ui32", "8x5xf64", ops))
    large = np.array([0, 1, 4000000000, 4294967295, 7], np.uint32)
    np.testing.assert_array_equal(found, (a + large).astype(np.float64))


@pytest.mark.parametrize("op", ["dot", "dot_general"])
def test_products_of_unsigned_integers_that_are_wider(op: str) -> None:
    """The largest of 8 bits is 255, and not -1."""
    dims = "" if op == "dot" else ", contracting_dims = [0] x [0]"
    text = f"""
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<6xui8> {{mesh.sharding = #mesh.shard<@g, [[0]]>}}) -> tensor<ui32> {{
      %0 = stablehlo.{op} %x, %x{dims} : (tensor<6xui8>, tensor<6xui8>) -> tensor<ui32>
      return %0 : tensor<ui32>
    }}"""
    (x,), (found,) = results_of(text)
    assert found == np.sum(x.astype(np.uint32) ** 2)
    assert x.max() > 127


def test_complex_numbers() -> None:
    t = "tensor<8x5xcomplex<f32>>"
    ops = f"""
      %p = stablehlo.multiply %a, %b : {t}
      %r = stablehlo.dot_general %p, %b, contracting_dims = [0] x [0]
        : ({t}, {t}) -> tensor<5x5xcomplex<f32>>"""
    (a, b), (found,) = results_of(cut_in_rows("complex<f32>", "5x5xcomplex<f32>", ops))
    assert a.imag.any()
    np.testing.assert_allclose(found, (a * b).T @ b, rtol=1e-4, atol=1e-4)


def test_a_bitcast_of_complex_numbers_to_themselves() -> None:
    t = "tensor<8x5xcomplex<f32>>"
    text = cut_in_rows(
        "complex<f32>",
        "8x5xcomplex<f32>",
        f"%c = stablehlo.bitcast_convert %a : ({t}) -> {t}\n %r = stablehlo.add %c, %b : {t}",
    )
    (a, b), (result,) = results_of(text)
    assert np.array_equal(result, a + b)


@pytest.mark.parametrize("floats", ["f16", "f32", "f64"])
def test_floats_beyond_the_range_of_integers_become_its_ends_and_nan_0(floats: str) -> None:
    dtype = np.dtype(f"f{int(floats[1:]) // 8}")
    with np.errstate(over="ignore"):
        x = np.array([-1.5, 300, np.nan, np.inf, -np.inf, 2.0**31, -3e9, 1e30], dtype)
    for width in (8, 16, 32, 64):
        for kind in ("i", "ui"):
            t = f"{kind}{width}"
            text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%a: tensor<8x{floats}> {{mesh.sharding = #mesh.shard<@g, [[0]]>}})
        -> tensor<8x{t}> {{
      %r = stablehlo.convert %a : (tensor<8x{floats}>) -> tensor<8x{t}>
      return %r : tensor<8x{t}>
    }}"""
            with make_context():
                executable = compile_sharded(Source.of(text))
            (found,) = run_on_devices(executable, [x])
            ends = np.iinfo(f"{kind[0]}{width // 8}")
            for each, number in zip(found, map(float, x), strict=True):
                exact = 0 if np.isnan(number) else number if np.isinf(number) else int(number)
                assert each == max(ends.min, min(ends.max, exact)), (t, number)


def test_a_padding_of_negative_zeros_keeps_its_sign() -> None:
    ops = """
      %z = stablehlo.constant dense<-0.0> : tensor<f32>
      %r = stablehlo.pad %a, %z, low = [1, 0], high = [1, 0], interior = [0, 0]
        : (tensor<8x5xf32>, tensor<f32>) -> tensor<10x5xf32>"""
    _, (found,) = results_of(cut_in_rows("f32", "10x5xf32", ops))
    assert np.signbit(found[[0, -1]]).all()


LISTED = str([[(float(row), float(at)) for at in range(5)] for row in range(8)])


@pytest.mark.parametrize("rows", ["(0.5, 2.0)", LISTED])
def test_constants_of_complex_numbers(rows: str) -> None:
    t = "tensor<8x5xcomplex<f32>>"
    ops = f"""
      %c = stablehlo.constant dense<{rows}> : {t}
      %r = stablehlo.multiply %a, %c : {t}"""
    (a, _), (found,) = results_of(cut_in_rows("complex<f32>", "8x5xcomplex<f32>", ops))
    numbers = np.array(ast.literal_eval(rows), np.float32)
    np.testing.assert_allclose(found, a * (numbers[..., 0] + 1j * numbers[..., 1]), rtol=1e-6)


@pytest.mark.parametrize("axes", ["[[0], []]", "[[], [0]]"])
def test_tensors_without_elements(axes: str) -> None:
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%a: tensor<5x0xf32> {{mesh.sharding = #mesh.shard<@g, {axes}>}})
        -> (tensor<0x5xf32>, tensor<5xf32>, tensor<0x0xf32>) {{
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %r = stablehlo.transpose %a, dims = [1, 0] : (tensor<5x0xf32>) -> tensor<0x5xf32>
      %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<5x0xf32>, tensor<f32>) -> tensor<5xf32>
      %e = stablehlo.slice %a [5:5, 0:0] : (tensor<5x0xf32>) -> tensor<0x0xf32>
      return %r, %s, %e : tensor<0x5xf32>, tensor<5xf32>, tensor<0x0xf32>
    }}"""
    _, (turned, summed, end) = results_of(text)
    assert (turned.shape, end.shape) == ((0, 5), (0, 0))
    np.testing.assert_array_equal(summed, np.zeros(5))


@pytest.mark.parametrize("concat", ["tensor.concat dim(0) {}", "stablehlo.concatenate {}, dim = 0"])
@pytest.mark.parametrize("axes", ["[[0], []]", "[[], [0]]"])
def test_joined_with_tensors_without_elements(axes: str, concat: str) -> None:
    nothing, all_ = concat.format("%a, %a"), concat.format("%a, %b, %a, %b")
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%a: tensor<0x4xf32> {{mesh.sharding = #mesh.shard<@g, {axes}>}},
                    %b: tensor<3x4xf32>) -> (tensor<0x4xf32>, tensor<6x4xf32>) {{
      %r = {nothing} : (tensor<0x4xf32>, tensor<0x4xf32>) -> tensor<0x4xf32>
      %s = {all_} : (tensor<0x4xf32>, tensor<3x4xf32>, tensor<0x4xf32>, tensor<3x4xf32>)
        -> tensor<6x4xf32>
      return %r, %s : tensor<0x4xf32>, tensor<6x4xf32>
    }}"""
    (_, b), (nothing_, joined) = results_of(text)
    assert nothing_.shape == (0, 4)
    np.testing.assert_array_equal(joined, np.concatenate([b, b]))


@pytest.mark.parametrize("axes", ["[[0], []]", "[[], [0]]"])
@pytest.mark.parametrize("dim", [-1, -2])
def test_sorts_along_dimensions_counted_from_the_last(axes: str, dim: int) -> None:
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%a: tensor<8x5xf32> {{mesh.sharding = #mesh.shard<@g, {axes}>}})
        -> tensor<8x5xf32> {{
      %r = "stablehlo.sort"(%a) ({{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %p = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }}) {{dimension = {dim} : i64}} : (tensor<8x5xf32>) -> tensor<8x5xf32>
      return %r : tensor<8x5xf32>
    }}"""
    (a,), (found,) = results_of(text)
    np.testing.assert_array_equal(found, np.sort(a, axis=dim))


COMPARISONS = {
    "call": "%p = func.call @less(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<i1>",
    "if": """
        %p = "stablehlo.if"(%up) ({
          %q = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %q : tensor<i1>
        }, {
          %q = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %q : tensor<i1>
        }) : (tensor<i1>) -> tensor<i1>""",
}


@pytest.mark.parametrize("comparison", COMPARISONS.values(), ids=COMPARISONS)
def test_sorts_by_what_more_than_elementwise_ops_say(comparison: str) -> None:
    text = f"""
    shard.grid @g(shape = 4)
    func.func private @less(%x: tensor<f32>, %y: tensor<f32>) -> tensor<i1> {{
      %p = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      return %p : tensor<i1>
    }}
    func.func @main(%a: tensor<8x5xf32> {{mesh.sharding = #mesh.shard<@g, [[0], []]>}})
        -> tensor<8x5xf32> {{
      %up = stablehlo.constant dense<true> : tensor<i1>
      %r = "stablehlo.sort"(%a) ({{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        {comparison}
        stablehlo.return %p : tensor<i1>
      }}) {{dimension = 0 : i64}} : (tensor<8x5xf32>) -> tensor<8x5xf32>
      return %r : tensor<8x5xf32>
    }}"""
    (a,), (found,) = results_of(text)
    np.testing.assert_array_equal(found, np.sort(a, axis=0))


@pytest.mark.parametrize("size", [1, 12, 257, 2 * 521])
@pytest.mark.parametrize(("name", "by"), [("FFT", np.fft.fft), ("IFFT", np.fft.ifft)])
def test_fourier_transforms_of_all_lengths(
    name: str, by: Callable[[Array], Array], size: int
) -> None:
    t = f"tensor<3x{size}xcomplex<f64>>"
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%a: {t} {{mesh.sharding = #mesh.shard<@g, [[0], []]>}}) -> {t} {{
      %r = stablehlo.fft %a, type = {name}, length = [{size}] : ({t}) -> {t}
      return %r : {t}
    }}"""
    (a,), (found,) = results_of(text)
    np.testing.assert_allclose(found, by(a), rtol=1e-9, atol=1e-9)


def test_single_numbers_are_read_as_such(tmp_path: Path) -> None:
    types = [TensorType((), np.dtype(np.uint32)), TensorType((2,), np.dtype(np.float32))]
    path = str(tmp_path / "inputs.npz")
    np.savez(path, arg0=np.uint32(3), arg1=np.ones(2, np.float32))
    assert [array.shape for array in load_inputs(path, types)] == [(), (2,)]


@needs("jax")
def test_what_jax_draws_and_sorts() -> None:
    import jax
    import jax.numpy as jnp

    def program(x: jax.Array, seed: jax.Array) -> tuple[jax.Array, ...]:
        first, second = jax.random.split(jax.random.key(seed))
        kept = jnp.where(jax.random.bernoulli(first, 0.7, x.shape), x, 0)
        order = jnp.argsort(kept, axis=1)
        return (
            jnp.take_along_axis(kept, order, axis=1) @ jax.random.uniform(second, (16, 8)),
            jax.random.permutation(second, 16),
            jax.random.bits(second, (4,), jnp.uint8),
            jnp.zeros((32, 16)).at[jax.random.randint(first, (8,), 0, 32)].add(kept),
        )

    x, seed = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32), np.uint32(3)
    text = jax.jit(program).lower(x, seed).as_text()
    whole = "@main(%arg0: tensor<8x16xf32>"
    assert whole in text
    cut = "@main(%arg0: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}"
    head, body = text.split("{\n", 1)
    with make_context():
        source = Source.of(f"{head}{{\nshard.grid @g(shape = 4)\n{body.replace(whole, cut)}")
        executable = compile_sharded(source)
    found = run_on_devices(executable, [x, np.asarray(seed)])
    for ours, theirs in zip(found, jax.jit(program)(x, seed), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
def test_products_and_sums_in_one_op(element: str) -> None:
    t = f"tensor<8x5x{element}>"
    text = cut_in_rows(element, f"8x5x{element}", f"%r = math.fma %a, %b, %a : {t}")
    (a, b), (found,) = results_of(text)
    wide = [each.astype(np.float64) for each in (a, b)]
    tolerance = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}[element]
    expected = wide[0] * wide[1] + wide[0]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=1.01 * tolerance)
