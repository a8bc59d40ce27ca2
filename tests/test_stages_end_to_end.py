"""Random programs of several stages, on devices in this process, equal the unsharded program."""

import os
import warnings
from random import Random

import pytest

from shard_dialect import report
from shard_dialect.errors import ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.testing import check_program
from shard_dialect.testing.random_stages import staged_program

pytestmark = pytest.mark.usefixtures("unoptimized")

SEEDS = range(int(os.environ.get("SHARD_DIALECT_STAGED", "40")))
PIPELINES = (
    ("spmd,lower",),
    ("propagate", "materialize", "optimize-collectives", "partition", "lower"),
    ("propagate,materialize,partition,canonicalize,cse,lower",),
    ("propagate,materialize,optimize-collectives,partition{arguments=whole},lower",),
    ("spmd,overlap-collectives", "lower"),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_staged_equals_unsharded(seed: int) -> None:
    text = staged_program(Random(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        verdict = check_program.run_and_check(text, *PIPELINES[seed % len(PIPELINES)]).verdict
    assert verdict.passed, f"{text}\n{verdict.failure}"


ON_ANOTHER_STAGE = """
"mesh.cluster"() {sym_name = "all", rank = 1 : i64, dim_sizes = [2], axis_names = ["x"]} : () -> ()
"sdy.mesh"() {sym_name = "first", mesh = #sdy.mesh<[], device_ids=[0]>} : () -> ()
"sdy.mesh"() {sym_name = "second", mesh = #sdy.mesh<[], device_ids=[1]>} : () -> ()
func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@all, [{"x"}]>},
                %y: tensor<4xf32> {sdy.sharding = #sdy.sharding<@first, []>}) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  %1 = stablehlo.add %0, %y
      {sdy.sharding = #sdy.sharding_per_value<[<@second, []>]>} : tensor<4xf32>
  %2 = stablehlo.multiply %1, %y
      {sdy.sharding = #sdy.sharding_per_value<[<@first, []>]>} : tensor<4xf32>
  %3 = stablehlo.multiply %2, %0
      {sdy.sharding = #sdy.sharding_per_value<[<@all, [{"x"}]>]>} : tensor<4xf32>
  return %3 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("pipelines", PIPELINES)
def test_operands_are_passed_on_to_where_a_result_is_annotated(pipelines: tuple[str, ...]) -> None:
    verdict = check_program.run_and_check(ON_ANOTHER_STAGE, *pipelines).verdict
    assert verdict.passed, verdict.failure


COUNTED = """
"mesh.cluster"() {sym_name = "all", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @all, offsets = [0], sizes = [1]} : () -> ()
"mesh.sub_cluster"() {sym_name = "b", cluster = @all, offsets = [1], sizes = [1]} : () -> ()
func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@a, []>}) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:3 = stablehlo.while(%i = %zero, %j = %zero, %h = %x) : tensor<i32>, tensor<i32>, tensor<4xf32>
  cond {
    %c = stablehlo.constant dense<3> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %2 = stablehlo.add %i, %one : tensor<i32>
    %3 = stablehlo.add %j, %i : tensor<i32>
    %4 = stablehlo.tanh %h : tensor<4xf32>
    stablehlo.return %2, %3, %4 : tensor<i32>, tensor<i32>, tensor<4xf32>
  }
  %5 = stablehlo.negate %0#1 : tensor<i32>
  %6 = "mesh.collective_permute"(%5) {cluster = @b} : (tensor<i32>) -> tensor<i32>
  %7 = "mesh.collective_permute"(%0#2) {cluster = @b} : (tensor<4xf32>) -> tensor<4xf32>
  %8 = stablehlo.convert %6 : (tensor<i32>) -> tensor<f32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %10 = stablehlo.add %9, %7 : tensor<4xf32>
  return %10 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("pipelines", PIPELINES)
def test_what_the_loop_of_a_stage_counts_is_passed_on(pipelines: tuple[str, ...]) -> None:
    verdict = check_program.run_and_check(COUNTED, *pipelines).verdict
    assert verdict.passed, verdict.failure


def test_programs_have_branches() -> None:
    """And pass tensors on: most of them, else they would test little."""
    staged = 0
    for seed in SEEDS:
        with make_context():
            module = Source.of(staged_program(Random(seed))).parse()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ShardWarning)
                run_pipeline(module, "spmd")
            names = {op.name for op in walk(module.operation)}
        staged += {"scf.if", "mesh.collective_permute"} <= names
    assert staged > len(SEEDS) / 2


KEPT = """
"mesh.cluster"() {sym_name = "all", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @all, offsets = [0], sizes = [1]} : () -> ()
"mesh.sub_cluster"() {sym_name = "b", cluster = @all, offsets = [1], sizes = [1]} : () -> ()
func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@a, []>}, %n: tensor<f32>,
                %m: tensor<64xf32>) -> (tensor<4xf32>, tensor<64xf32>) {
  %of_all = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<64xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<8x4xf32>
  %kept = "mesh.annotate"(%z) {sharding = #mesh.shard<@a, []>}
      : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %z2 = stablehlo.constant dense<0.0> : tensor<8x4xf32>
  %kept2 = "mesh.annotate"(%z2) {sharding = #mesh.shard<@b, []>}
      : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %0:4 = stablehlo.while(%i = %zero, %h = %x, %a = %kept, %b = %kept2)
      : tensor<i32>, tensor<4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  cond {
    %c = stablehlo.constant dense<8> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %first = stablehlo.constant dense<0> : tensor<i32>
    %row = stablehlo.reshape %h : (tensor<4xf32>) -> tensor<1x4xf32>
    %a1 = stablehlo.dynamic_update_slice %a, %row, %i, %first
        : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    %1 = stablehlo.tanh %h : tensor<4xf32>
    %sent = "mesh.annotate"(%1) {sharding = #mesh.shard<@b, []>} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.sine %sent : tensor<4xf32>
    %row2 = stablehlo.reshape %2 : (tensor<4xf32>) -> tensor<1x4xf32>
    %b1 = stablehlo.dynamic_update_slice %b, %row2, %i, %first
        : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    %back = "mesh.annotate"(%2) {sharding = #mesh.shard<@a, []>} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %back, %a1, %b1
        : tensor<i32>, tensor<4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  }
  %last = stablehlo.slice %0#2 [0:1, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %of_last = stablehlo.reshape %last : (tensor<1x4xf32>) -> tensor<4xf32>
  %rows = stablehlo.slice %0#3 [0:1, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %of_rows = stablehlo.reshape %rows : (tensor<1x4xf32>) -> tensor<4xf32>
  %brought = "mesh.annotate"(%of_rows) {sharding = #mesh.shard<@a, []>}
      : (tensor<4xf32>) -> tensor<4xf32>
  %sum = stablehlo.add %of_last, %brought : tensor<4xf32>
  %scaled = stablehlo.multiply %of_all, %m : tensor<64xf32>
  return %sum, %scaled : tensor<4xf32>, tensor<64xf32>
}
"""
"""Two stages that keep what each iteration makes; all devices scale by a number at the end."""


def test_devices_have_room_for_what_one_stage_keeps_from_when_it_is_made() -> None:
    with make_context():
        module = Source.of(KEPT).parse()
        run_pipeline(module, "spmd")
        memory = report(module).memory
        # At the end 64 numbers of 4 bytes; before, the 8 rows of one stage, with what it passes on.
        assert memory.temporaries == 64 * 4


@pytest.mark.parametrize("pipelines", PIPELINES)
def test_what_stages_keep_is_right(pipelines: tuple[str, ...]) -> None:
    verdict = check_program.run_and_check(KEPT, *pipelines).verdict
    assert verdict.passed, verdict.failure
