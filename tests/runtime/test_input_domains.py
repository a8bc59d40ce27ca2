"""Random inputs are drawn from where the program is defined, as far as it says so itself."""

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import TensorType
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.compile import compile_sharded
from shard_dialect.runtime.dynamic_sizes import Sizes
from shard_dialect.runtime.input_domains import Domain, domains_of
from shard_dialect.runtime.random_inputs import drawn_inputs, random_inputs

ANY, NOT_NEGATIVE = Domain(), Domain(low=0)
ADAM = """
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %square = stablehlo.multiply %y, %y : tensor<4xf32>
  %old = stablehlo.multiply %half, %x : tensor<4xf32>
  %new = stablehlo.add %old, %square : tensor<4xf32>
  %0 = stablehlo.sqrt %new : tensor<4xf32>
"""
LOOKUP = """
  %most = arith.constant 9 : index
  %none = arith.constant 0 : i64
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
                       iterator_types = ["parallel"]} ins(%x : tensor<4xi64>) outs(%y : tensor<4xf32>) {
  ^bb0(%in: i64, %out: f32):
    %at = arith.index_cast %in : i64 to index
    %below = arith.cmpi sge, %most, %at : index
    %above = arith.cmpi sge, %in, %none : i64
    %both = arith.andi %below, %above : i1
    cf.assert %both, "an index of the table"
    linalg.yield %out : f32
  } -> tensor<4xf32>
"""  # noqa: E501
EXTRACTED = """
  %c = arith.constant 2 : index
  %i = tensor.extract %x[%c] : tensor<4xi64>
  %at = arith.index_cast %i : i64 to index
  %e = tensor.extract %y[%at] : tensor<4xf32>
  %0 = tensor.splat %e : tensor<4xf32>
"""


@pytest.mark.parametrize(
    ("kind", "ops", "expected"),
    [
        ("f32", ADAM, [NOT_NEGATIVE, ANY]),
        ("f32", "%0 = math.log %x : tensor<4xf32>", [NOT_NEGATIVE, ANY]),
        ("f32", "%0 = math.exp %x : tensor<4xf32>", [ANY, ANY]),
        # What is behind a difference may be anything.
        (
            "f32",
            "%d = arith.subf %x, %y : tensor<4xf32>\n %0 = math.sqrt %d : tensor<4xf32>",
            [ANY, ANY],
        ),
        ("i64", LOOKUP, [Domain(0, 9), ANY]),
        ("i64", EXTRACTED, [Domain(0, 3), ANY]),
    ],
)
def test_what_ops_and_assertions_require(kind: str, ops: str, expected: list[Domain]) -> None:
    text = (
        f"func.func @main(%x: tensor<4x{kind}>, %y: tensor<4xf32>) -> tensor<4xf32> {{\n"
        f"{ops}\nreturn %0 : tensor<4xf32>\n}}"
    )
    with make_context():
        module = Source.of(text).parse()
        assert domains_of(module.operation, "main") == expected


def test_inputs_are_within_their_domains() -> None:
    f32, i64 = (TensorType((1000,), np.dtype(each)) for each in (np.float32, np.int64))
    types, domains = [f32, f32, i64, i64], [ANY, NOT_NEGATIVE, Domain(0, 9), Domain(low=7)]
    free, positive, index, large = random_inputs(types, 1, domains)
    assert free.min() < 0 <= positive.min()
    assert (index.min(), index.max(), large.min()) == (0, 9, 7)


OPEN = """
func.func @main(%n: i64, %x: tensor<?xi64>, %y: tensor<4xf64>) -> tensor<4xf64> {
  %c = arith.constant 2 : index
  %i = tensor.extract %x[%c] : tensor<?xi64>
  %at = arith.index_cast %i : i64 to index
  %e = tensor.extract %y[%at] : tensor<4xf64>
  %k = arith.sitofp %n : i64 to f64
  %f = arith.mulf %e, %k : f64
  %s = tensor.splat %f : tensor<4xf64>
  %r = math.sqrt %y : tensor<4xf64>
  %0 = arith.addf %s, %r : tensor<4xf64>
  return %0 : tensor<4xf64>
}
"""


def test_inputs_of_a_program_whose_sizes_are_given() -> None:
    """An argument that became a constant gets none, and the others keep their own domains."""
    source, sizes = Source.of(OPEN), Sizes(shapes=",500,", scalars="3,,")
    with make_context():
        program = compile_sharded(source, sizes=sizes).program
    index, positive = drawn_inputs(source, program, 1, sizes)
    assert (index.shape, index.min(), index.max()) == ((500,), 0, 3)
    assert positive.min() >= 0
