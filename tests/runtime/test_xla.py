"""XLA as a backend: collectives, programs of every kind, and what it cannot run."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.backends.xla.xla_devices import XlaDevices, XlaExecutable
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.compile import compile_by
from shard_dialect.testing.check_program import reference_of
from tests.conftest import ROOT, Program
from tests.extras import needs
from tests.runtime.collective_cases import (
    DTYPES,
    GRID,
    Case,
    Computed,
    cases,
    inputs_of,
    program,
    refusals,
)

pytestmark = needs("jax")


def chosen_for(element: str) -> list[Case]:
    left_out = refusals(element)
    return [case for case in cases() if case.name not in left_out and case.of_all_backends]


@pytest.mark.parametrize("element", DTYPES)
def test_every_collective_is_right(element: str) -> None:
    chosen = chosen_for(element)
    inputs = inputs_of(element)
    with make_context():
        module = Source.of(program(chosen, element, started=element == "f32")).parse()
        executable = XlaExecutable(module, "main")
    outputs = XlaDevices(GRID.size).run(executable, [[each] for each in inputs])
    wrong = [
        f"on {rank}: {case.text(element, 0)}"
        for rank, results in enumerate(outputs)
        for case, result in zip(chosen, results, strict=True)
        if not np.array_equal(result, case.expected(inputs, rank))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.mlir")), ids=lambda path: path.stem)
def test_examples_are_right(path: str, run: Program) -> None:
    done = run(str(path), "--backend=xla", "--check")
    assert done.returncode == 0, done.stderr
    assert "XLA (cpu) runs these collectives: " in done.stdout
    assert "check passed" in done.stdout


IN_BRANCHES = """
mesh.cluster @all(rank = 1, dim_sizes = [4])
mesh.sub_cluster @a(cluster = @all, offsets = [0], sizes = [2])
mesh.sub_cluster @b(cluster = @all, offsets = [2], sizes = [2])
func.func @main(%x: tensor<1x8x3xf32> {mesh.sharding = #mesh.shard<@a, [[], [0]]>},
                %k: tensor<3x3x3xf32>) -> tensor<1x8x3xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
      window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x8x3xf32>, tensor<3x3x3xf32>) -> tensor<1x8x3xf32>
  %1 = "mesh.collective_permute"(%0) {cluster = @b} : (tensor<1x8x3xf32>) -> tensor<1x8x3xf32>
  %2 = stablehlo.convolution(%1, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
      window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x8x3xf32>, tensor<3x3x3xf32>) -> tensor<1x8x3xf32>
  return %2 : tensor<1x8x3xf32>
}
"""


def test_halos_of_a_stage_need_no_other_stage(run: Program, tmp_path: Path) -> None:
    """XLA lets all devices meet at a permutation, also those that take another branch."""
    (tmp_path / "in.mlir").write_text(IN_BRANCHES)
    done = run(str(tmp_path / "in.mlir"), "--backend=xla", "--check", "--timeout=60")
    assert "check passed" in done.stdout, done.stderr


def test_manual_computations_of_stages_are_right(run: Program) -> None:
    folder = ROOT / "tests/lit/manual"
    reference = f"--reference={folder}/Inputs/stages_unsharded.mlir"
    done = run(str(folder / "stages.mlir"), "--backend=xla", "--check", reference, "--timeout=60")
    assert "check passed" in done.stdout, done.stderr


def refusal(text: str) -> str:
    with make_context(), pytest.raises(ShardError) as found:
        compile_by(XlaDevices, Source.of(text, "x.mlir"))
    return str(found.value)


def test_a_plugin_s_op_runs_by_its_lowering(run: Program) -> None:
    plugin = ROOT / "tests/lit/driver/Inputs/toy.py"
    program = ROOT / "tests/lit/run/plugin_lowering.mlir"
    done = run(str(program), "--load-plugin", str(plugin), "--backend=xla", "--check")
    assert "check passed" in done.stdout, done.stderr


def test_messages_are_refused() -> None:
    (sent,) = [case for case in cases() if case.name == "send/recv"][:1]
    text = refusal(program([sent], "f32", started=False))
    assert text.startswith("x.mlir:")
    assert "cannot be written as StableHLO, where all devices run one program" in text


def test_computed_roots_are_refused() -> None:
    (rooted,) = [case for case in cases() if isinstance(case, Computed)][:1]
    text = refusal(program([rooted], "f32", started=False))
    assert text.startswith("x.mlir:")
    assert "whose root the program computes as it runs cannot be written as StableHLO" in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%0 = memref.alloc() : memref<4xf32>\n return %x : tensor<4xf32>", "'memref.alloc' op"),
    ],
)
def test_what_has_no_words_is_refused(body: str, message: str) -> None:
    text = f"""shard.grid @g(shape = 2)
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
        {body}
        }}"""
    assert f"{message} cannot be written as StableHLO" in refusal(text)


def test_a_program_of_one_device_is_refused(opt: Program) -> None:
    done = opt("--spmd", "--pick-device=rank=1", str(ROOT / "examples/mlp_2d.mlir"))
    with make_context(), pytest.raises(ShardError, match="is the program of one device"):
        compile_by(XlaDevices, Source.of(done.stdout))


def results_of(text: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    with make_context():
        executable = compile_by(XlaDevices, Source.of(f"shard.grid @g(shape = 2)\n{text}"))
    world = XlaDevices(executable.program.devices)
    outputs = world.run(executable, [executable.program.scatter(inputs, r) for r in world.ranks])
    return executable.program.gather(outputs)


def test_the_report_tells_what_xla_has_merged() -> None:
    """Two all-reduces too large to bundle: XLA may make one of both, and the report says so."""
    text = """
        shard.grid @g(shape = 4)
        func.func @main(%x: tensor<8x16384xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                        %y: tensor<8x16384xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
            -> (tensor<16384xf32>, tensor<16384xf32>) {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
            : (tensor<8x16384xf32>, tensor<f32>) -> tensor<16384xf32>
          %1 = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0]
            : (tensor<8x16384xf32>, tensor<f32>) -> tensor<16384xf32>
          return %0, %1 : tensor<16384xf32>, tensor<16384xf32>
        }"""
    with make_context():
        found = compile_by(XlaDevices, Source.of(text)).collectives
    assert found.written == {"all-reduce": 2}
    if found.compiled == found.written:  # as XLA for CPUs does now
        assert str(found) == "XLA (cpu) runs these collectives: 2 all-reduce"
    else:
        assert str(found).startswith("XLA (cpu) runs ")


def test_scalars_loops_and_branches() -> None:
    """Numbers that are no tensors, `scf`, and a device's own index."""
    text = """
        func.func @main(%x: tensor<4xf32>, %n: tensor<index>) -> (tensor<4xf32>, tensor<i32>) {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %count = tensor.extract %n[] : tensor<index>
          %start = arith.constant 7 : i32
          %y, %k = scf.for %i = %zero to %count step %one iter_args(%a = %x, %b = %start)
              -> (tensor<4xf32>, i32) {
            %twice = arith.addf %a, %a : tensor<4xf32>
            %even = arith.remui %i, %count : index
            %is = arith.cmpi eq, %even, %one : index
            %c = scf.if %is -> i32 {
              %m = arith.muli %b, %b : i32
              scf.yield %m : i32
            } else {
              scf.yield %b : i32
            }
            scf.yield %twice, %c : tensor<4xf32>, i32
          }
          %w:2 = scf.while (%a = %k, %v = %y) : (i32, tensor<4xf32>) -> (tensor<4xf32>, i32) {
            %limit = arith.constant 100 : i32
            %more = arith.cmpi slt, %a, %limit : i32
            scf.condition(%more) %v, %a : tensor<4xf32>, i32
          } do {
          ^bb0(%v: tensor<4xf32>, %a: i32):
            %next = arith.addi %a, %a : i32
            %u = math.sqrt %v : tensor<4xf32>
            scf.yield %next, %u : i32, tensor<4xf32>
          }
          %r = tensor.from_elements %w#1 : tensor<i32>
          return %w#0, %r : tensor<4xf32>, tensor<i32>
        }"""
    x = np.array([1, 4, 9, 16], np.float32)
    y, r = results_of(text, [x, np.array(3)])
    # 3 doublings; 7 becomes 49 once; 49 doubles to 98 and 196, with a root each time.
    np.testing.assert_allclose(y, (8 * x) ** 0.25, rtol=1e-6)
    assert r == 196


CONVOLUTIONS = {
    "conv_2d_nhwc_hwcf": ("2x9x8x3", "3x2x3x4", "2x4x7x4", "strides = dense<[2, 1]>"),
    "conv_2d_nchw_fchw": ("2x3x9x8", "4x3x3x2", "2x4x5x4", "dilations = dense<[2, 4]>"),
    "depthwise_conv_2d_nhwc_hwc": ("2x6x6x5", "3x3x5", "2x4x4x5", ""),
    "depthwise_conv_2d_nhwc_hwcm": ("2x6x6x5", "3x3x5x2", "2x4x4x5x2", ""),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_become_convolutions(name: str) -> None:
    image, kernel, result, how = CONVOLUTIONS[name]
    attributes = f"{{{how} : tensor<2xi64>}}" if how else ""
    text = f"""
        func.func @main(%x: tensor<{image}xf32>, %k: tensor<{kernel}xf32>, %o: tensor<{result}xf32>)
            -> tensor<{result}xf32> {{
          %0 = linalg.{name} {attributes} ins(%x, %k : tensor<{image}xf32>, tensor<{kernel}xf32>)
            outs(%o : tensor<{result}xf32>) -> tensor<{result}xf32>
          return %0 : tensor<{result}xf32>
        }}"""
    text = f"shard.grid @g(shape = 2)\n{text}"
    with make_context():
        executable = compile_by(XlaDevices, Source.of(text))
    assert "stablehlo.convolution" in executable.text
    shapes = [each.global_type.shape for each in executable.program.arguments]
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    (expected,) = reference_of(text).run(inputs)
    outputs = XlaDevices(2).run(executable, [inputs, inputs])
    (actual,) = executable.program.gather(outputs)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


FUNCTIONS = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "erfc", "sinh"]

RANGES = {
    "acos": (-0.999, 0.999),
    "acosh": (1.0, 50.0),
    "asin": (-0.999, 0.999),
    "asinh": (-1e6, 1e6),
    "atanh": (-0.999, 0.999),
    "cosh": (-20.0, 20.0),
    "sinh": (-20.0, 20.0),
}


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_stablehlo_lacks(name: str, element: str) -> None:
    """Beside the C library, within a few roundings where they are well conditioned."""
    dtype = np.dtype({"f32": np.float32, "f64": np.float64}[element])
    low, high = RANGES.get(name, (-5.0, 5.0))
    x = np.linspace(low, high, 301).astype(dtype)
    text = f"""
        func.func @main(%x: tensor<301x{element}>) -> tensor<301x{element}> {{
          %0 = math.{name} %x : tensor<301x{element}>
          return %0 : tensor<301x{element}>
        }}"""
    (actual,) = results_of(text, [x])
    expected = np.array([getattr(math, name)(float(each)) for each in x])
    error = np.abs(actual.astype(np.float64) - expected)
    assert np.max(error / np.maximum(np.abs(expected), 1e-30)) <= 128 * np.finfo(dtype).eps
