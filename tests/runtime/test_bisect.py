"""The op that is named is the one that goes wrong, and none is where nothing does."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.collectives import AllReduce, Step
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.shard.local_collectives import write_local
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.base import ANYTHING
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.partition import partition_collectives
from shard_dialect.passes.propagate.take_merges_apart import SinkReshapes
from shard_dialect.runtime.checking import bisect
from shard_dialect.runtime.checking.bisect import Suspect
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.compile import compile_reference, compile_sharded
from shard_dialect.runtime.dynamic_sizes import Sizes
from shard_dialect.runtime.random_inputs import random_inputs
from tests.extras import needs
from tests.programs.annotated import random_program
from tests.programs.flow import random_flow_program
from tests.programs.runnable_stablehlo import runnable_stablehlo
from tests.programs.uneven import UnevenProgram
from tests.runtime.test_check import SCATTER

pytestmark = pytest.mark.usefixtures("unoptimized")

LIT = Path(__file__).parent.parent / "lit"


def blamed(text: str, inputs: Sequence[Array] = ()) -> ShardError:
    """What is said of a program, whether a check of it fails or not."""
    source = Source.of(text, "program.mlir")
    with make_context():
        reference = compile_reference(source, "main")
        program = compile_sharded(source, "main").program
        suspect = Suspect.read(source, "main", Sizes())
    inputs = inputs or random_inputs([each.global_type for each in program.arguments], seed=0)
    return suspect.error(reference, inputs, InProcess(program.devices), "result0 differs")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "program",
    [
        random_program,
        random_flow_program,
        runnable_stablehlo,
        lambda seed: str(UnevenProgram(seed)),
    ],
    ids=["linalg", "flow", "stablehlo", "uneven"],
)
def test_nothing_is_blamed_where_all_is_right(program: Callable[[int], str], seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        error = blamed(program(seed))
    assert error.message.startswith("every op's value is the unsharded program's"), error
    assert [note.message for note in error.notes] == ["result0 differs"]


@needs("jax")
def test_what_the_check_allows_is_not_blamed() -> None:
    """The reference adds a million numbers one by one, and is farther from the sum than devices."""
    inputs = [np.abs(np.random.default_rng(0).standard_normal(1 << 20)).astype(np.float32)]
    text = SCATTER.format(n=1 << 20).replace(
        "return %y", "%z = stablehlo.abs %y : tensor<2xf32> return %z"
    )
    assert "where it is given as a result" in blamed(text, inputs).message


def test_what_has_halos_is_compared_without_them() -> None:
    error = blamed((LIT / "run" / "windows.mlir").read_text())
    assert error.message.startswith("every op's value is the unsharded program's"), error


CHAIN = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<3x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0, 1]]>})
    -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %z = math.tanh %x : tensor<3x8xf32>
  %a = stablehlo.reduce(%z init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
  %b = math.exp %a : tensor<3xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [0] : (tensor<3xf32>) -> tensor<3x8xf32>
  %d = stablehlo.multiply %c, %z : tensor<3x8xf32>
  %f = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
  %h = math.absf %f : tensor<3xf32>
  return %h : tensor<3xf32>
}
"""


@pytest.mark.parametrize("line", [9, 14])
def test_an_all_reduce_that_is_left_out_is_found(line: int) -> None:
    write = write_local

    def forgetful(step: Step, grid: str, operand: ir.Value, result: ir.Type) -> ir.Value:
        is_there = f":{line}:" in str(ir.Location.current)
        left_out = isinstance(step, AllReduce) and is_there
        return operand if left_out else write(step, grid, operand, result)

    distributed = _pipelined(CHAIN, "propagate,materialize")
    assert distributed.count('"mesh.all_reduce"') == 2
    with patch.object(partition_collectives, "write_local", forgetful):
        error = blamed(CHAIN)
    assert error.location == f"program.mlir:{line}:8"
    assert error.message.startswith("the result of 'mesh.all_reduce' op on device 0"), error


def _pipelined(text: str, pipeline: str) -> str:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, pipeline)
        return str(module)


def test_a_pass_that_changes_the_program_is_named() -> None:
    def rewrite(self: SinkReshapes, module: ir.Operation) -> None:
        for op in walk(module):
            if op.name == "math.absf":
                with ir.InsertionPoint(op), op.location:
                    made = ir.Operation.create("math.exp", [op.results[0].type], [op.operands[0]])
                op.results[0].replace_all_uses_with(made.results[0])
                op.erase()

    with patch.multiple(SinkReshapes, rewrite=rewrite, needs=ANYTHING):
        error = blamed(CHAIN)
    expected = "--sink-reshapes makes another program: without shardings they differ, too"
    assert error.message == expected


def test_a_few_values_at_once_are_enough() -> None:
    with patch.object(bisect, "AT_ONCE", 2):
        test_an_all_reduce_that_is_left_out_is_found(14)


def test_what_nobody_wrote_is_not_compared() -> None:
    error = blamed("""
      shard.grid @g(shape = 2)
      func.func @main(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<8xf32> {
        %e = tensor.empty() : tensor<16xf32>
        %0 = tensor.insert_slice %x into %e[0] [8] [1] : tensor<8xf32> into tensor<16xf32>
        %1 = tensor.extract_slice %0[0] [8] [1] : tensor<16xf32> to tensor<8xf32>
        return %1 : tensor<8xf32>
      }""")
    assert error.message.startswith("every op's value is the unsharded program's"), error


def _blamed_edit(form: str, old: str, new: str) -> ShardError:
    """The error of `--bisect` for `CHAIN` in a form, where the text `old` was edited."""
    made = _pipelined(CHAIN, form)
    assert old in made, made
    source, of = Source.of(made.replace(old, new, 1), "edited.mlir"), Source.of(CHAIN, "of.mlir")
    with make_context():
        reference = compile_reference(of, "main")
        program = compile_sharded(source, "main").program
        suspect = Suspect.read(source, "main", Sizes(), of=of)
    inputs = random_inputs([each.global_type for each in program.arguments], seed=0)
    return suspect.error(reference, inputs, InProcess(program.devices), "result0 differs")


@pytest.mark.parametrize("form", ["import,propagate", "import,propagate,materialize", "spmd"])
@pytest.mark.parametrize(
    ("old", "new", "line"),
    [("math.tanh", "math.sin", 6), ("math.exp", "math.absf", 9), ("math.absf", "math.exp", 14)],
)
def test_an_edited_op_is_named_in_each_form(form: str, old: str, new: str, line: int) -> None:
    error = _blamed_edit(form, old, new)
    assert error.message.startswith(
        f"the result of '{new}' op is another than that of '{old}' op in the program of --reference"
    ), error
    assert str(error.location).startswith("edited.mlir:"), error
    assert error.notes[0].location == f"of.mlir:{line}:8", error


def test_a_collective_left_out_of_a_local_program_is_told() -> None:
    local = _pipelined(CHAIN, "spmd")
    (line,) = [each for each in local.splitlines() if "shard.all_reduce" in each][:1]
    name, operand = line.split()[0], line.split()[3]
    left_out = local.replace(line + "\n", "").replace(f"{name} ", f"{operand} ")
    with patch(f"{__name__}._pipelined", lambda *_: local):
        error = _blamed_edit("spmd", local, left_out)
    assert error.message.startswith("the result of 'math.exp' op is no value"), error
    assert "'shard.all_reduce' op" in error.notes[0].message, error


def test_no_op_of_a_right_local_program_is_blamed() -> None:
    error = _blamed_edit("spmd", "math.tanh", "math.tanh")
    assert error.message.startswith("every value is one that the program of --reference has"), error


PADDED = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<7x3xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> tensor<7x3xf32> {
  %m = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = stablehlo.reduce(%x init: %m) applies stablehlo.maximum across dimensions = [1]
    : (tensor<7x3xf32>, tensor<f32>) -> tensor<7xf32>
  %b = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<7xf32>) -> tensor<7x3xf32>
  %d = stablehlo.subtract %x, %b : tensor<7x3xf32>
  %0 = math.exp %d : tensor<7x3xf32>
  %1 = math.tanh %0 : tensor<7x3xf32>
  return %1 : tensor<7x3xf32>
}
"""
GATHERED_ON_THE_WAY = """
    %g = shard.all_gather EXP on @g grid_axes = [0] gather_axis = 0
      : tensor<4x3xf32> -> tensor<8x3xf32>
    %w = tensor.extract_slice %g[0, 0] [7, 3] [1, 1] : tensor<8x3xf32> to tensor<7x3xf32>
    %z = arith.constant dense<0.0> : tensor<8x3xf32>
    %p = tensor.insert_slice %w into %z[0, 0] [7, 3] [1, 1] : tensor<7x3xf32> into tensor<8x3xf32>
    %s = shard.all_slice %p on @g grid_axes = [0] slice_axis = 0
      : tensor<8x3xf32> -> tensor<4x3xf32>
"""


def test_what_padding_holds_is_not_blamed() -> None:
    local = _pipelined(PADDED, "spmd")
    old = next(each for each in local.splitlines() if "math.tanh" in each)
    exp = old.split()[3]
    new = GATHERED_ON_THE_WAY.replace("EXP", exp) + old.replace(f"math.tanh {exp}", "math.sin %s")
    with patch(f"{__name__}.CHAIN", PADDED):
        error = _blamed_edit("spmd", old, new)
    assert error.message.startswith(
        "the result of 'math.sin' op is another than that of 'math.tanh' op"
    ), error
