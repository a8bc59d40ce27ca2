"""What is materialized of dimensions that do not divide is right on the pieces of every device."""

from __future__ import annotations

import os

import numpy as np
import pytest

import shard_dialect as sd
from benchmarks.ours import tally_of
from tests import distributed
from tests.uneven_programs import UnevenProgram

SEEDS = range(int(os.environ.get("SHARD_DIALECT_PROGRAMS", "80")))
PIPELINES = ("propagate,materialize", "propagate,materialize,optimize-collectives")

SOFTMAX = """
shard.grid @g(shape = {devices})
func.func @main(%x: tensor<4x6xf64>, %w: tensor<6x{columns}xf64>) -> tensor<4x6xf64> {{
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %low = stablehlo.constant dense<-1.0e300> : tensor<f64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x6xf64>, tensor<6x{columns}xf64>) -> tensor<4x{columns}xf64>
  %1 = shard.shard %0 to %s annotate_for_users : tensor<4x{columns}xf64>
  %2 = stablehlo.reduce(%1 init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x{columns}xf64>, tensor<f64>) -> tensor<4xf64>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<4xf64>) -> tensor<4x{columns}xf64>
  %4 = stablehlo.subtract %1, %3 : tensor<4x{columns}xf64>
  %5 = stablehlo.exponential %4 : tensor<4x{columns}xf64>
  %6 = stablehlo.reduce(%5 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x{columns}xf64>, tensor<f64>) -> tensor<4xf64>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<4xf64>) -> tensor<4x{columns}xf64>
  %8 = stablehlo.divide %5, %7 : tensor<4x{columns}xf64>
  %9 = stablehlo.transpose %w, dims = [1, 0] : (tensor<6x{columns}xf64>) -> tensor<{columns}x6xf64>
  %10 = stablehlo.dot_general %8, %9, contracting_dims = [1] x [0]
    : (tensor<4x{columns}xf64>, tensor<{columns}x6xf64>) -> tensor<4x6xf64>
  %r = shard.sharding @g split_axes = [[], []] : !shard.sharding
  %11 = shard.shard %10 to %r : tensor<4x6xf64>
  return %11 : tensor<4x6xf64>
}}
"""


def check(text: str, pipeline: str, *shapes: tuple[int, ...]) -> int:
    module = sd.parse(text)
    sd.run_pipeline(module, pipeline)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, shape).astype(np.float64) for shape in shapes]
    with module.context:
        return distributed.check(module, inputs)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("columns", "devices"), [(1003, 8), (13, 4), (5, 4), (3, 8)])
def test_a_softmax_over_columns(columns: int, devices: int, pipeline: str) -> None:
    text = SOFTMAX.format(columns=columns, devices=devices)
    uneven = check(text, pipeline, (4, 6), (6, columns))
    assert uneven >= (6 if columns > 100 else 0)


def test_a_softmax_over_columns_moves_what_is_reduced() -> None:
    """The maxima and the sums of rows, and the product: no column."""
    module = sd.parse(SOFTMAX.format(columns=1003, devices=8))
    sd.run_pipeline(module, "propagate,materialize")
    tally = tally_of(module)
    assert tally.count == {"all_reduce": 3}
    assert tally.bytes_moved == 2 * 7 * (4 + 4 + 4 * 6) * 8 // 8


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int) -> None:
    program = UnevenProgram(seed)
    check(str(program), PIPELINES[seed % 2], *program.arguments)


def test_many_random_programs_have_uneven_values() -> None:
    programs = [UnevenProgram(seed) for seed in range(20)]
    uneven = [check(str(each), PIPELINES[0], *each.arguments) for each in programs]
    assert sum(count > 2 for count in uneven) > 5
