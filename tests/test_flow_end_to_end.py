"""Random linalg programs with loops, branches, blocks and calls equal the unsharded program."""

import os
import warnings

import pytest

from shard_dialect.errors import ShardWarning
from tests.programs.flow import random_flow_program
from tests.test_end_to_end import run_and_check
from tests.test_stablehlo_end_to_end import PIPELINES

pytestmark = pytest.mark.usefixtures("unoptimized")

SEEDS = range(int(os.environ.get("SHARD_DIALECT_FLOW_PROGRAMS", "60")))


@pytest.mark.parametrize("seed", SEEDS)
def test_sharded_equals_unsharded(seed: int) -> None:
    text = random_flow_program(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        verdict = run_and_check(text, *PIPELINES[seed % len(PIPELINES)])
    assert verdict.passed, f"{text}\n{verdict.failure}"


WHILE = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<4x4xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %y = math.sin %xs : tensor<4x4xf32>
  %r:4 = scf.while (%i = %c0, %a = %y, %b = %y, %c = %xs)
      : (i32, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>)
      -> (i32, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
    %p = arith.cmpi slt, %i, %c3 : i32
    %aa = linalg.exp ins(%b : tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
    %cc = arith.addf %b, %c : tensor<4x4xf32>
    scf.condition(%p) %i, %aa, %b, %cc
      : i32, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  } do {
  ^bb0(%i: i32, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %c: tensor<4x4xf32>):
    %n = arith.addi %i, %c1 : i32
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
    %m = linalg.matmul ins(%a, %c : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = math.tanh %m : tensor<4x4xf32>
    scf.yield %n, %t, %t, %a : i32, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %r#1, %r#2, %r#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
"""


def test_a_value_that_goes_around_twice_is_in_two_buffers() -> None:
    verdict = run_and_check(WHILE, "spmd,lower")
    assert verdict.passed, verdict.failure
