"""The check passes what rounding explains, and nothing else."""

import sys
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

import shard_dialect as sd
from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.checking.check import Verdict, check
from shard_dialect.runtime.checking.reference import Judge
from shard_dialect.runtime.checking.tolerance import (
    Deviations,
    compare,
    least_allowed,
    perturbed,
)
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.compile import compile_reference, compile_sharded
from tests.conftest import run_child
from tests.extras import needs


def verdict(text: str, reference: str, inputs: list[Array]) -> Verdict:
    with make_context():
        sharded = compile_sharded(Source.of(text))
        unsharded = compile_reference(Source.of(reference), sharded.program.entry)
    world = InProcess(sharded.program.devices)
    outputs = world.run(sharded, [sharded.program.scatter(inputs, rank) for rank in world.ranks])
    return check(sharded, unsharded, inputs, outputs, world)


UNARY = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<32xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<32xf32, #mesh.shard<@g, [[0]]>> {{
  %0 = math.{} %x : tensor<32xf32, #mesh.shard<@g, [[0]]>>
  return %0 : tensor<32xf32, #mesh.shard<@g, [[0]]>>
}}
"""


def test_one_huge_element_does_not_hide_the_others() -> None:
    x = np.full(32, 1.5, np.float32)
    x[0] = -1e9
    assert not verdict(UNARY.format("absf"), UNARY.format("floor"), [x]).passed


def test_a_program_agrees_with_itself() -> None:
    x = np.linspace(-3, 3, 32, dtype=np.float32)
    assert verdict(UNARY.format("sin"), UNARY.format("sin"), [x]).passed


CANCELLATION = """
#row = affine_map<(i, j) -> (i)>
#id = affine_map<(i, j) -> (i, j)>
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8x512xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<8xf32> {
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  %sum = linalg.reduce {arith.addf}
      ins(%x : tensor<8x512xf32, #mesh.shard<@g, [[], [0]]>>) outs(%zero : tensor<8xf32>)
      dimensions = [1]
  %n = arith.constant dense<512.0> : tensor<8xf32>
  %mean = arith.divf %sum, %n : tensor<8xf32>
  %e = tensor.empty() : tensor<8x512xf32>
  %wide = linalg.broadcast ins(%mean : tensor<8xf32>) outs(%e : tensor<8x512xf32>) dimensions = [1]
  %plain = tensor.empty() : tensor<8x512xf32>
  %d = linalg.sub ins(%x, %wide : tensor<8x512xf32, #mesh.shard<@g, [[], [0]]>>, tensor<8x512xf32>)
                  outs(%plain : tensor<8x512xf32>) -> tensor<8x512xf32>
  %rest = linalg.reduce {arith.addf} ins(%d : tensor<8x512xf32>) outs(%zero : tensor<8xf32>)
                                     dimensions = [1]
  return %rest : tensor<8xf32>
}
"""


def test_a_sum_that_cancels_is_allowed_what_rounding_makes_of_it() -> None:
    x = np.random.default_rng(0).standard_normal((8, 512)).astype(np.float32) + 100
    assert verdict(CANCELLATION, CANCELLATION, [x]).passed


SATURATED = """
shard.grid @g(shape = 2)
func.func @main(%a: tensor<24x24xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                %b: tensor<24x24xf32>) -> tensor<24x24xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<24x24xf32>, tensor<24x24xf32>) -> tensor<24x24xf32>
  %1 = stablehlo.tanh %0 : tensor<24x24xf32>
  %2 = stablehlo.dot_general %b, %1, contracting_dims = [1] x [0]
    : (tensor<24x24xf32>, tensor<24x24xf32>) -> tensor<24x24xf32>
  %3 = stablehlo.tanh %2 : tensor<24x24xf32>
  %4 = stablehlo.subtract %1, %3 : tensor<24x24xf32>
  return %4 : tensor<24x24xf32>
}
"""


@pytest.mark.parametrize("judge", [pytest.param("xla", marks=needs("jax")), "upstream"])
def test_saturated_values_that_cancel_are_allowed_the_error_of_each(judge: Judge) -> None:
    program = sd.compile(sd.parse(SATURATED))
    for seed in range(8):
        verdict = program.check(seed=seed, judge=judge)
        assert verdict.passed, verdict


def test_no_two_values_are_perturbed_alike() -> None:
    """All values here are 1 in the end, so that only what perturbs them tells them apart."""
    with make_context():
        reference = compile_reference(Source.of(SATURATED), "main")
    inputs = [np.full((24, 24), 2, np.float32)] * 2
    (still,), (moved,) = reference.run(inputs), reference.run_nearby(inputs, 0, 64)
    assert not still.any()
    assert np.count_nonzero(moved) > 0.9 * moved.size


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_a_sum_that_overflows_is_said_to(element: str) -> None:
    text = f"""
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x{element}> {{mesh.sharding = #mesh.shard<@g, [[0]]>}})
    -> tensor<{element}> {{
  %zero = stablehlo.constant dense<0.0> : tensor<{element}>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<4x{element}>, tensor<{element}>) -> tensor<{element}>
  return %0 : tensor<{element}>
}}
"""
    x = np.array([3e38, 3e38, -3e38, -3e38], {"f32": np.float32, "bf16": bfloat16}[element])
    found = verdict(text, text, [x])
    assert found.passed
    assert "result0 cannot be compared in 1 of 1 elements" in found.note
    assert "64 bits for each float, is not finite" in found.note


def test_large_integers_that_differ_by_one_differ() -> None:
    actual = np.array([2**53], np.int64)
    expected = np.array([2**53 + 1], np.int64)
    assert not compare(actual, expected, least_allowed(expected)).passed


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
def test_equal_values_agree_whatever_they_are(value: float) -> None:
    array = np.full(3, value, np.float32)
    with np.errstate(invalid="ignore"):
        assert compare(array, array, least_allowed(array)).passed


@pytest.mark.parametrize(("a", "b"), [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (0.0, 1e-30)])
def test_values_that_differ_do_not(a: float, b: float) -> None:
    actual, expected = np.array([a], np.float32), np.array([b], np.float32)
    assert not compare(actual, expected, least_allowed(expected)).passed


def test_a_perturbation_moves_floats_by_their_last_place_only() -> None:
    x = np.array([1.0, -3.0, 0.0], np.float32)
    moved = perturbed(x, seed=1)
    assert np.all(np.abs(moved - x) <= 2 * np.finfo(np.float32).eps * np.abs(x))
    np.testing.assert_array_equal(perturbed(np.arange(3), seed=1), np.arange(3))


@pytest.mark.parametrize("units", [1, 64])
def test_a_perturbation_moves_floats_by_so_many_units(units: int) -> None:
    x = np.linspace(1, 2, 1000, dtype=np.float32)
    moved = abs(perturbed(x, 1, units) - x) / (np.finfo(np.float32).eps * x)
    assert units / 2 < moved.max() <= units + 1


def test_what_one_unit_does_not_show_is_allowed() -> None:
    """The parts of such a sum are too large for a unit in their last place to move it often."""
    x = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    x[:, 3] = -x[:, :3].sum(axis=1) + 1e-3
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<200x4xf32{}>) -> tensor<200xf32> {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
        : (tensor<200x4xf32{}>, tensor<f32>) -> tensor<200xf32>
      return %s : tensor<200xf32>
    }}"""
    cut = ", #mesh.shard<@g, [[], [0]]>"
    assert verdict(text.format(cut, cut), text.format("", ""), [x]).passed


PEAK = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(done.returncode)
"""


def peak(*arguments: str) -> int:
    """The most memory that a run takes at once, in bytes."""
    run = [sys.executable, "-m", "shard_dialect.run", *arguments]
    done = run_child([sys.executable, "-c", PEAK, *run])
    assert done.returncode == 0, done
    return int(done.stdout)


def test_a_check_takes_three_times_the_memory_of_both_programs_at_most(tmp_path: Path) -> None:
    type_ = "tensor<4096x4096xf32>"
    program = tmp_path / "large.mlir"
    program.write_text(f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: {type_}) -> {type_} {{
      %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
      %xs = shard.shard %x to %s : {type_}
      %y = arith.addf %xs, %xs : {type_}
      %z = math.tanh %y : {type_}
      return %z : {type_}
    }}""")
    both = 2 * peak(str(program))  # the unsharded program takes as much
    for judge in ("upstream", "self"):
        assert peak(str(program), "--check", f"--reference-by={judge}") < 3 * both


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_element_that_is_no_number_says_nothing_of_its_neighbours(value: float) -> None:
    expected = np.array([value, 1.0], np.float32)
    deviations = Deviations([expected])
    with np.errstate(invalid="ignore"):
        deviations.add([np.array([value, 1.5], np.float32)])
        deviations.add([np.array([0.0, 0.5], np.float32)])
    (allowed,) = deviations.by_rounding()
    assert np.all(np.isfinite(allowed))
    assert allowed[1] == 5.0


def test_a_tiny_number_may_be_taken_for_zero() -> None:
    expected = np.array([0.0], np.float32)
    assert compare(np.array([6e-38], np.float32), expected, least_allowed(expected)).passed
    assert not compare(np.array([6e-30], np.float32), expected, least_allowed(expected)).passed


@pytest.mark.parametrize("type_", ["memref<4xf32>", "tensor<*xf32>", "index"])
def test_a_function_that_no_judge_can_run_is_refused_at_its_place(type_: str) -> None:
    text = f"\nfunc.func @main(%x: {type_}) {{ return }}"
    with make_context(), pytest.raises(ShardError) as error:
        compile_reference(Source.of(text, "p.mlir"), "main")
    assert error.value.location == "p.mlir:2:1"
    assert error.value.message.startswith("function @main cannot be checked: ")


SCATTER = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<{n}xf32> {{mesh.sharding = #mesh.shard<@g, [[0]]>}}) -> tensor<2xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<2xf32>
  %at = stablehlo.constant dense<1> : tensor<{n}x1xi64>
  %y = "stablehlo.scatter"(%zero, %at, %x) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) {{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
    : (tensor<2xf32>, tensor<{n}x1xi64>, tensor<{n}xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}}
"""


@needs("jax")
def test_the_reference_may_be_the_one_that_rounds() -> None:
    """A million positive numbers into one cell, one by one: each is rounded to the sum's units."""
    count = 1 << 20
    text = SCATTER.format(n=count)
    inputs = [np.abs(np.random.default_rng(0).standard_normal(count)).astype(np.float32)]
    with make_context():
        reference = compile_reference(Source.of(text), "main")
    (result,), (true,) = reference.run(inputs), reference.run_in_f64(inputs) or ()
    assert true.dtype == np.float64
    assert true[1] == pytest.approx(np.sum(inputs[0], dtype=np.float64), rel=1e-12)
    assert abs(result[1] - true[1]) > 20 * np.spacing(result[1])  # by far more than one rounding
    assert verdict(text, text, inputs).passed


CHAOS = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<64xf32> {{mesh.sharding = #mesh.shard<@g, [[0]]>}}) -> tensor<64xf32> {{
  %fifty = stablehlo.constant dense<50.0> : tensor<64xf32>
{}
  return %v{} : tensor<64xf32>
}}
"""


@pytest.mark.parametrize(("steps", "says"), [(2, False), (40, True)])
def test_a_result_that_any_rounding_changes_is_not_compared(steps: int, says: bool) -> None:
    lines = []
    for number in range(steps):
        before = f"%v{number}" if number else "%x"
        lines += [
            f"%d{number} = stablehlo.multiply {before}, %fifty : tensor<64xf32>",
            f"%v{number + 1} = stablehlo.sine %d{number} : tensor<64xf32>",
        ]
    verdict = sd.compile(sd.parse(CHAOS.format("\n".join(lines), steps))).check()
    assert verdict.passed
    assert ("result0 cannot be compared: an error" in str(verdict)) == says


CENTRED = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<16x64xf32> {{mesh.sharding = #mesh.shard<@g, [[0], [1]]>}})
    -> tensor<16xf32> {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<{}> : tensor<16xf32>
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
      : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
  %m = stablehlo.divide %s, %n : tensor<16xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<16xf32>) -> tensor<16x64xf32>
  %d = stablehlo.subtract %x, %b : tensor<16x64xf32>
  %r = stablehlo.reduce(%d init: %z) applies stablehlo.add across dimensions = [1]
      : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
  return %r : tensor<16xf32>
}}
"""


def test_a_result_that_is_0_but_for_rounding_is_compared_with_0() -> None:
    inputs = [np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)]
    right, wrong = CENTRED.format("64.0"), CENTRED.format("64.1")
    passed = verdict(right, right, inputs)
    assert passed.passed
    assert not passed.note
    assert not verdict(wrong, right, inputs).passed


def test_a_tolerance_that_overflows_allows_any_number() -> None:
    expected, allowed = np.array([1e34], np.float32), np.array([np.inf], np.float32)
    assert compare(np.array([6e33], np.float32), expected, allowed).passed
    assert not compare(np.array([np.nan], np.float32), expected, allowed).passed


LOGARITHM = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32> {{mesh.sharding = #mesh.shard<@g, [[0]]>}}) -> tensor<4xf32> {{
  %large = stablehlo.constant dense<{}> : tensor<4xf32>
  %few = stablehlo.constant dense<{}> : tensor<4xf32>
  %0 = stablehlo.add %x, %large : tensor<4xf32>
  %1 = stablehlo.subtract %0, %large : tensor<4xf32>
  %2 = stablehlo.subtract %1, %few : tensor<4xf32>
  %3 = stablehlo.log %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}}
"""


@pytest.mark.parametrize(("large", "is_compared"), [("0.0", True), ("3.0e7", False)])
def test_a_logarithm_of_cancelled_numbers_may_be_no_number(large: str, is_compared: bool) -> None:
    inputs = [np.array([1, 3, 5, 7], np.float32)]
    result = verdict(LOGARITHM.format(large, "8.0"), LOGARITHM.format(large, "0.0"), inputs)
    assert result.passed != is_compared
    assert is_compared or "cannot be compared" in result.note


def test_a_result_that_is_no_number_is_said() -> None:
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32> {
      %minus = stablehlo.constant dense<[-1.0, -1.0, 1.0, 1.0]> : tensor<4xf32>
      %0 = stablehlo.log %minus : tensor<4xf32>
      %1 = stablehlo.add %x, %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    """
    verdict = sd.compile(sd.parse(text)).check()
    assert verdict.passed
    assert "result0 is NaN in 2 of 4 elements of the unsharded program, too" in str(verdict)
