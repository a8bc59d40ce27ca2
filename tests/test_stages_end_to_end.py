"""Random programs of several stages, on devices in this process, equal the unsharded program."""

import os
import warnings
from random import Random

import pytest

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
