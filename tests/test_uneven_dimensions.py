"""Programs with dimensions that do not divide, and with shards at offsets, mean the same."""

from __future__ import annotations

import os
import random
from math import prod

import pytest

import shard_dialect as sd
from benchmarks.ours import tally_of
from shard_dialect.collectives import Exchange
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid, Sharding
from shard_dialect.planner import plan
from shard_dialect.testing.placement import cluster
from tests.programs.uneven import UnevenProgram
from tests.test_end_to_end import run_and_check

pytestmark = pytest.mark.usefixtures("unoptimized")

SEEDS = range(int(os.environ.get("SHARD_DIALECT_PROGRAMS", "80")))
PIPELINES = (
    "spmd,lower",
    "propagate,materialize,canonicalize,cse;optimize-collectives,partition;canonicalize,cse,lower",
    "spmd,optimize-collectives,overlap-collectives,lower",
)

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


def check(text: str, pipeline: str) -> None:
    verdict = run_and_check(text, *pipeline.split(";"))
    assert verdict.passed, f"{text}\n{verdict.failure}"


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("columns", "devices"), [(1003, 8), (13, 4), (5, 4), (3, 8)])
def test_a_softmax_over_columns(columns: int, devices: int, pipeline: str) -> None:
    check(SOFTMAX.format(columns=columns, devices=devices), pipeline)


def test_a_softmax_over_columns_moves_what_is_reduced() -> None:
    """The maxima and the sums of rows, and the product: no column."""
    module = sd.parse(SOFTMAX.format(columns=1003, devices=8))
    sd.run_pipeline(module, "propagate,materialize")
    tally = tally_of(module)
    assert tally.count == {"all_reduce": 3}
    assert tally.bytes_moved == 2 * 7 * (4 + 4 + 4 * 6) * 8 // 8


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int) -> None:
    check(str(UnevenProgram(seed)), PIPELINES[seed % len(PIPELINES)])


def is_uneven(type_: ir.Type, shardings: Shardings) -> bool:
    sharding = shardings.of_type(type_)
    grid = None if sharding is None else shardings.grid(sharding.grid)
    return sharding is not None and sharding.uneven_dim(tuple(type_.shape), grid) is not None


def test_many_random_programs_have_uneven_values() -> None:
    found = 0
    for seed in range(20):
        module = sd.parse(str(UnevenProgram(seed)))
        sd.run_pipeline(module, "propagate,materialize")
        shardings = Shardings.of(module.operation)
        for op in walk(module.operation):
            for value in op.results:
                found += is_uneven(value.type, shardings)
    assert found > 20


@pytest.mark.parametrize("seed", range(20))
def test_shards_at_offsets(seed: int) -> None:
    rng = random.Random(seed)
    grid = rng.choice([(2,), (3,), (4,), (2, 2)])
    rows, columns = rng.randint(1, 7), rng.randint(1, 7)

    def said(*shape: int) -> str:
        dim, split, offsets = rng.randrange(2), [[], []], [[], []]
        split[dim] = rng.sample(range(len(grid)), rng.randint(1, len(grid)))
        count = prod(grid[axis] for axis in split[dim])
        inner = sorted(rng.randint(0, shape[dim]) for _ in range(count - 1))
        offsets[dim] = [0, *inner, shape[dim]]
        lists = ", ".join(map(str, split))
        return f"{{mesh.sharding = #mesh.shard<@g, [{lists}, {{offsets = {offsets}}}]>}}"

    matrix, square = f"tensor<{rows}x{columns}xf32>", f"tensor<{columns}x{columns}xf32>"
    text = f"""
    shard.grid @g(shape = {"x".join(map(str, grid))})
    func.func @main(%x: {matrix} {said(rows, columns)}, %y: {matrix} {said(rows, columns)})
        -> ({matrix} {said(rows, columns)}, {square} {said(columns, columns)}) {{
      %0 = stablehlo.add %x, %y : {matrix}
      %1 = stablehlo.dot_general %0, %y, contracting_dims = [0] x [0]
        : ({matrix}, {matrix}) -> {square}
      return %0, %1 : {matrix}, {square}
    }}"""
    check(text, PIPELINES[seed % len(PIPELINES)])


def an_exchange(seed: int) -> tuple[Grid, tuple[int, int], Sharding, Sharding]:
    """A grid, a shape, and two shardings of it between which devices exchange elements."""
    rng = random.Random(seed)
    while True:
        grid = Grid("g", rng.choice(((4,), (2, 2), (3, 2), (2, 2, 2), (8,))))
        shape = rng.choice((5, 7, 23, 61)), rng.choice((5, 23, 50))
        ends = []
        for _ in range(2):
            dims: tuple[list[int], list[int]] = ([], [])
            for axis in rng.sample(range(grid.rank), grid.rank):
                if rng.random() < 0.8:
                    rng.choice(dims).append(axis)
            ends.append(Sharding("g", tuple(map(tuple, dims))))
        if any(isinstance(step, Exchange) for step in plan(*ends, shape, 4, grid).steps):
            return grid, shape, ends[0], ends[1]


@pytest.mark.parametrize("seed", range(24))
def test_exchanged_shards_are_those_of_the_target(seed: int) -> None:
    grid, (rows, columns), source, target = an_exchange(seed)
    type_ = f"tensor<{rows}x{columns}xf32>"
    text = f"""{cluster(grid)}
func.func @main(%x: {type_} {{mesh.sharding = #mesh.shard<@g, {source}>}})
    -> ({type_} {{mesh.sharding = #mesh.shard<@g, {target}>}}) attributes {{mesh_cluster = @g}} {{
  %0 = math.sin %x : {type_}
  return %0 : {type_}
}}
"""
    check(text, PIPELINES[seed % len(PIPELINES)])
