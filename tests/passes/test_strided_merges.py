"""Merges whose shards would be strided are taken apart: the numbers stay, fewer bytes move."""

import warnings
from random import Random
from unittest.mock import patch

import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardWarning
from shard_dialect.passes.propagate import take_merges_apart
from shard_dialect.testing.check_program import run_and_check
from tests.programs.merged_dims import MergedDims

SEEDS = range(60)
FREE = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<6x64x128xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], []]>},
                %w: tensor<128x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> (tensor<6x64x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], []]>}) {
  %0 = stablehlo.reshape %x : (tensor<6x64x128xf32>) -> tensor<384x128xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
      : (tensor<384x128xf32>, tensor<128x64xf32>) -> tensor<384x64xf32>
  %2 = stablehlo.reshape %1 : (tensor<384x64xf32>) -> tensor<6x64x64xf32>
  return %2 : tensor<6x64x64xf32>
}
"""
SPLIT_WEIGHTS = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<64x6x32xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [0]]>},
                %w: tensor<192x64xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> tensor<64x64xf32> {
  %0 = stablehlo.reshape %x : (tensor<64x6x32xf32>) -> tensor<64x192xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
      : (tensor<64x192xf32>, tensor<192x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}
"""


def bytes_moved(text: str) -> int:
    module = sd.parse(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        sd.run_pipeline(module, "spmd")
    return sd.communication(module).bytes_moved


def bytes_moved_with_merges(text: str) -> int:
    with patch.object(take_merges_apart, "_take_apart_all", lambda _: False):
        return bytes_moved(text)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_compute_the_same(seed: int) -> None:
    text = MergedDims(Random(seed)).text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        verdict = run_and_check(text, "spmd,lower").verdict
    assert verdict.passed, f"{text}\n{verdict.failure}"


@pytest.mark.parametrize(("moves", "share"), [(False, 1 / 3), (True, 1 / 4)])
def test_random_programs_move_fewer_bytes(moves: bool, share: float) -> None:
    texts = [MergedDims(Random(seed), moves=moves).text() for seed in SEEDS[:30]]
    ratios = [(bytes_moved(text) + 1) / (bytes_moved_with_merges(text) + 1) for text in texts]
    assert sum(ratio < 1 for ratio in ratios) >= len(texts) * share
    assert sum(ratio > 1 for ratio in ratios) <= len(texts) / 10


def test_a_slice_of_one_element_stays_merged() -> None:
    """It is a sum over shards, but the element has its place in the merged dimension."""
    text = """
    shard.grid @g(shape = 2x2)
    func.func @main(%x: tensor<24x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>})
        -> tensor<1xf32> {
      %0 = stablehlo.reshape %x : (tensor<24x8xf32>) -> tensor<192xf32>
      %1 = stablehlo.exponential %0 : tensor<192xf32>
      %2 = stablehlo.slice %1 [42:43] : (tensor<192xf32>) -> tensor<1xf32>
      return %2 : tensor<1xf32>
    }"""
    assert sd.compile(sd.parse(text)).check().passed


def test_a_product_on_strided_rows_gathers_the_weights() -> None:
    assert bytes_moved(FREE) == 128 * 64 * 4 * 3 // 4
    assert bytes_moved_with_merges(FREE) > 4 * bytes_moved(FREE)


def test_weights_that_the_parts_cannot_be_split_like_end_it() -> None:
    module = sd.parse(SPLIT_WEIGHTS)
    sd.run_pipeline(module, "propagate")
    assert "64x192" in str(module)
    assert bytes_moved(SPLIT_WEIGHTS) == bytes_moved_with_merges(SPLIT_WEIGHTS)


@pytest.mark.parametrize(
    "options", ["strategy=user-priority", "strategy=basic", "traversal=forward"]
)
def test_strategies_of_others_keep_the_program(options: str) -> None:
    module = sd.parse(FREE)
    sd.run_pipeline(module, f"propagate{{{options}}}")
    assert "384x128" in str(module)
