"""CHLO's functions stay one op through all forms, and have StableHLO's numbers."""

import math
import re

import numpy as np
import pytest

from shard_dialect.api import run_pipeline
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.executable import Alone
from shard_dialect.testing import compile_unsharded

TEXT = """
func.func @main(%x: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x3xf32>, tensor<4x3xi32>) {
  %0 = chlo.erf %x : tensor<4x5xf32> -> tensor<4x5xf32>
  %values, %places = chlo.top_k(%x, k = 3) : tensor<4x5xf32> -> (tensor<4x3xf32>, tensor<4x3xi32>)
  return %0, %values, %places : tensor<4x5xf32>, tensor<4x3xf32>, tensor<4x3xi32>
}
"""
SPLIT = """
mesh.cluster @g(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<4x5xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4x5xf32> {
  %0 = chlo.erf %x : tensor<4x5xf32> -> tensor<4x5xf32>
  %1 = chlo.lgamma %0 : tensor<4x5xf32> -> tensor<4x5xf32>
  %2 = "chlo.constant_like"(%1) {value = 2.0 : f32} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %3 = chlo.broadcast_add %1, %2 : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  return %3 : tensor<4x5xf32>
}
"""


def through(text: str, pipeline: str) -> str:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, pipeline)
        return str(module)


def test_numbers() -> None:
    x = np.random.default_rng(0).permutation(20).reshape(4, 5).astype(np.float32) / 10 - 1
    erf, values, places = compile_unsharded(TEXT).run([x], Alone())
    np.testing.assert_allclose(erf, np.vectorize(math.erf)(x), rtol=1e-5)
    order = np.argsort(-x, axis=1)[:, :3]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis=1))


@pytest.mark.parametrize("pipeline", ["", "propagate", "spmd", "spmd,lower{target=stablehlo chlo}"])
def test_functions_stay_one_op_and_the_others_do_not(pipeline: str) -> None:
    found = re.findall(r"chlo\.\w+", through(SPLIT, pipeline))
    others = ["chlo.constant_like", "chlo.broadcast_add"] if not pipeline else []
    assert found == ["chlo.erf", "chlo.lgamma", *others]


@pytest.mark.parametrize("pipeline", ["spmd,lower{target=stablehlo}", "spmd,lower"])
def test_no_op_of_chlo_is_left_for_those_that_do_not_read_it(pipeline: str) -> None:
    assert "chlo" not in through(SPLIT, pipeline)


def test_a_sharding_on_an_op_that_is_decomposed_is_kept() -> None:
    text = SPLIT.replace(
        ": (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>",
        "{mesh.shardings = [#mesh.shard<@g, [[], [0]]>]} "
        ": (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>",
    )
    assert "all_to_all" in through(text, "spmd")


def test_chlo_that_is_wrong_is_so_in_its_place() -> None:
    wrong = TEXT.replace("k = 3) :", "k = 9) :")
    with make_context(), pytest.raises(ShardError) as caught:
        Source.of(wrong, "in.mlir").parse()
    assert str(caught.value).startswith("in.mlir:4:22: error: ")
