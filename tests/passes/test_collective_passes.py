"""Each pass on collectives, alone: what it makes computes the same and moves no more bytes."""

import warnings
from functools import cache

import pytest

from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.pipeline import run_pipeline, steps_before
from shard_dialect.planner import bytes_moved
from tests.programs.annotated import random_program
from tests.programs.runnable_stablehlo import runnable_stablehlo
from tests.test_end_to_end import run_and_check

pytestmark = pytest.mark.usefixtures("unoptimized")

PASSES = (
    "share-collectives",
    "fold-collectives",
    "sink-reductions",
    "sink-gathers",
    "raise-gathers",
    "exchange-gathers",
    "reduce-to-pieces",
    "rewrite-collectives,join-pieces",
    "compute-on-slices",
    "optimize-collectives",
)
SEEDS = range(1060, 1100)


@cache
def programs() -> tuple[tuple[str, str], ...]:
    """Random programs that can be materialized, and what that makes of them."""
    found = []
    for seed in SEEDS:
        for text in (random_program(seed), runnable_stablehlo(seed)):
            try:
                found.append((text, passed(text, "propagate,materialize")[0]))
            except ShardError:
                continue
    return tuple(found)


def passed(text: str, pipeline: str) -> tuple[str, int]:
    """What `pipeline` makes of a module, and the bytes that its reshards move."""
    with make_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        module = Source.of(text).parse()
        run_pipeline(module, pipeline)
        shardings = Shardings.of(module.operation)
        moved = 0
        for op in walk(module.operation):
            if is_reshard(op):
                found, type_ = read_collective(op), op.operands[0].type
                size = itemsize(type_.element_type)
                grid = shardings.grid(found.source.grid)
                moved += bytes_moved(found.steps, found.source, tuple(type_.shape), size, grid)
        return str(module), moved


def computes_the_same(text: str, pipeline: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        verdict = run_and_check(text, pipeline)
    assert verdict.passed, f"{text}\n{verdict.failure}"


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_what_is_computed_and_moves_no_more(name: str) -> None:
    changed = 0
    for text, materialized in programs():
        _, before = passed(materialized, "canonicalize")
        _, after = passed(materialized, f"{name},canonicalize")
        assert after <= before, materialized
        after_text, _ = passed(materialized, name)
        if after_text == materialized:
            continue
        changed += 1
        computes_the_same(text, f"propagate,materialize,{name},partition,lower")
    assert changed


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_has_nothing_to_do_after_itself(name: str) -> None:
    for _, materialized in programs()[::4]:
        once, _ = passed(materialized, name)
        assert passed(once, name)[0] == once


MOMENTS = """
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
func.func @main(%x: tensor<8x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<6xf32>, tensor<f32>, tensor<2x3xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<8x6xf32>, tensor<f32>) -> tensor<6xf32>
  %1 = stablehlo.multiply %x, %x : tensor<8x6xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<8x6xf32>, tensor<f32>) -> tensor<f32>
  %3 = stablehlo.multiply %1, %x : tensor<8x6xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<8x6xf32>, tensor<f32>) -> tensor<6xf32>
  %5 = stablehlo.reshape %4 : (tensor<6xf32>) -> tensor<2x3xf32>
  return %0, %2, %5 : tensor<6xf32>, tensor<f32>, tensor<2x3xf32>
}
"""


def test_a_bundle_computes_the_same() -> None:
    apart, _ = passed(MOMENTS, ",".join(steps_before("bundle-collectives")))
    bundled, _ = passed(MOMENTS, "spmd")
    assert [text.count("shard.all_reduce") for text in (apart, bundled)] == [3, 1]
    assert run_and_check(MOMENTS, "spmd,lower").passed


REDUCED_TWICE = """
"sdy.mesh"() {mesh = #sdy.mesh<["a"=8]>, sym_name = "mesh"} : () -> ()
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>},
                %w: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}) -> tensor<4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0]
      : (tensor<8xf32>, tensor<8x4xf32>) -> tensor<4xf32>
  %1 = "sdy.manual_computation"(%0) ({
  ^bb0(%whole: tensor<4xf32>):
    %2 = "stablehlo.all_reduce"(%whole) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %3 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    "sdy.return"(%2) : (tensor<4xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@mesh, [{}]>]>, manual_axes = #sdy<manual_axes{"a"}>,
      out_shardings = #sdy.sharding_per_value<[<@mesh, [{}]>]>} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""  # noqa: E501


def test_no_bundle_has_a_reduction_of_what_it_reduces() -> None:
    bundled, _ = passed(REDUCED_TWICE, "spmd")
    assert bundled.count("shard.all_reduce") == 2


BOTH_WAYS = """
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
func.func @main(%x: tensor<12x12xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<12x12xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}) {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<12x12xf32>) -> tensor<12x12xf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
      : (tensor<12x12xf32>, tensor<12x12xf32>) -> tensor<12x12xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<12x12xf32>) -> tensor<12x12xf32>
  %3 = stablehlo.add %1, %2 : tensor<12x12xf32>
  return %3 : tensor<12x12xf32>
}
"""
"""Splitting the product by rows and by columns costs as much."""


def test_a_rewrite_that_undoes_itself_ends() -> None:
    assert run_and_check(BOTH_WAYS, "spmd,lower").passed


@pytest.mark.parametrize("name", ["overlap-collectives", "bundle-collectives,overlap-collectives"])
def test_what_overlaps_computes_the_same(name: str) -> None:
    changed = 0
    for text, materialized in programs()[::2]:
        found, _ = passed(materialized, f"optimize-collectives,partition,{name}")
        if "mesh.start" not in found:
            continue
        changed += 1
        computes_the_same(text, f"spmd,{name},lower")
    assert changed


PRODUCTS = """
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @main(%x: tensor<4x16xf32> {mesh.sharding = #mesh.shard<@g, [[AXES], []]>},
                %v: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [AXES]]>},
                %w: tensor<8x12xf32> {mesh.sharding = #mesh.shard<@g, [[AXES], []]>})
    -> (tensor<4x12xf32> {mesh.sharding = #mesh.shard<@g, [[AXES], []]>}) {
  %0 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0]
      : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %1 = stablehlo.tanh %0 : tensor<4x8xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
      : (tensor<4x8xf32>, tensor<8x12xf32>) -> tensor<4x12xf32>
  return %2 : tensor<4x12xf32>
}
"""


@pytest.mark.parametrize("axes", ["0", "1", "0, 1", "1, 0"])
@pytest.mark.parametrize("after", ["", ",overlap-collectives"])
def test_products_by_chunks_compute_the_same(axes: str, after: str) -> None:
    text = PRODUCTS.replace("AXES", axes)
    found, _ = passed(text, f"spmd,chunk-products{after}")
    assert "all_gather" not in found
    assert "reduce_scatter" not in found
    assert ("mesh.start" in found) == bool(after)
    assert run_and_check(text, f"spmd,chunk-products{after},lower").passed
