"""Terms that cancel in one order of summation, and leave a rounding error in another, pass a check.

And a check still finds what is wrong in such sums.
"""

from itertools import product

import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import operations, walk
from shard_dialect.runtime.checking.reference.rounding import add_factors
from shard_dialect.testing.check_program import reference_of, run_and_check
from tests.extras import needs

SOLVE = """
shard.grid @g(shape = 2)
func.func @main(%a: {type} {{mesh.sharding = #mesh.shard<@g, {sharding}>}}) -> {type} {{
  %0 = "stablehlo.triangular_solve"(%a, %a) {{left_side = {left}, lower = true,
      unit_diagonal = false, transpose_a = #stablehlo<transpose {how}>}}
      : ({type}, {type}) -> {type}
  return %0 : {type}
}}
"""
MEAN = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<48x4xf32> {{mesh.sharding = #mesh.shard<@g, [[0], []]>}}) -> tensor<4xf32> {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<48x4xf32>, tensor<f32>) -> tensor<4xf32>
  %n = stablehlo.constant dense<{count}> : tensor<4xf32>
  %m = stablehlo.divide %s, %n : tensor<4xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<4xf32>) -> tensor<48x4xf32>
  %d = stablehlo.subtract %x, %b : tensor<48x4xf32>
  %r = stablehlo.reduce(%d init: %z) applies stablehlo.add across dimensions = [0] : (tensor<48x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}
"""  # noqa: E501


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize(
    ("element", "left", "how"),
    list(product(("f16", "bf16", "f32"), ("true", "false"), ("NO_TRANSPOSE", "TRANSPOSE"))),
)
@needs("jax")
def test_a_matrix_that_is_solved_for_itself(element: str, left: str, how: str) -> None:
    for shape, sharding in (("5x5", "[[], [0]]"), ("2x5x5", "[[0], [], []]")):
        text = SOLVE.format(
            type=f"tensor<{shape}x{element}>", sharding=sharding, left=left, how=how
        )
        verdict = run_and_check(text, "spmd,lower").verdict
        assert verdict.passed, f"{verdict.failure}\n{text}"


@pytest.mark.usefixtures("unoptimized")
@needs("jax")
def test_deviations_from_the_mean() -> None:
    right, wrong = (MEAN.format(count=count) for count in ("48.0", "47.99"))
    assert run_and_check(right, "spmd,lower").verdict.passed
    # A mean that is off by 2e-4 is no rounding error.
    assert not run_and_check(wrong, "spmd,lower", reference=reference_of(right)).verdict.passed


def test_operands_of_sums_are_perturbed_one_by_one() -> None:
    """Inputs are already; but one that is read twice is perturbed each time."""
    with make_context():
        module = Source.of(
            SOLVE.format(type="tensor<4x4xf32>", sharding="[[], []]", left="true", how="TRANSPOSE")
        ).parse()
        function = operations(module.body)[-1]
        add_factors(module.operation, function)
        solve = next(op for op in walk(function) if op.name == "stablehlo.triangular_solve")
        factors = [operand.owner.operands[1] for operand in solve.operands]
        assert len(set(factors)) == 2
