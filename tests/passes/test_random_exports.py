"""Random programs with loops and branches, exported after propagation, and read back."""

import warnings
from collections.abc import Iterator, Sequence
from random import Random

import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.mesh.attributes import BLOCKS
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.testing.random_program import any_program
from shard_dialect.testing.sample_table import runnable
from tests.extras import needs

pytestmark = pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")

STABLEHLO = [name for name in runnable() if name.startswith("stablehlo.")]
UNSAID = (
    "only annotated and propagated ones are exported",
    "which Shardy cannot say",
    "'mesh.transfer' op cannot be expressed",
    "cannot be expressed in upstream's shard dialect",
)


def through(text: str, passes: str) -> str:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, passes)
        return str(module)


def exports(
    seeds: range, ops: Sequence[str] | None = None, to: str = "export-sdy"
) -> Iterator[tuple[int, str, str]]:
    """Random programs that can be exported: the seed, the propagated form, and the export."""
    for seed in seeds:
        try:
            propagated = through(any_program(Random(seed), ops).text, "propagate")
        except ShardError:
            continue  # annotations that contradict each other
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", ".*: they are left out", ShardWarning)
                exported = through(propagated, to)
        except ShardWarning:
            continue
        except ShardError as error:
            if not any(each in error.message for each in UNSAID):
                raise
            continue
        yield seed, propagated, exported


def test_what_was_propagated_is_read_back() -> None:
    with_blocks = 0
    for seed, propagated, text in exports(range(80)):
        with_blocks += BLOCKS in propagated
        assert through(text, "materialize") == through(propagated, "materialize"), seed
    assert with_blocks >= 5


def test_loops_and_blocks_are_read_back_from_upstreams_dialect() -> None:
    with_blocks = 0
    for seed, propagated, text in exports(range(160), to="export-shard"):
        with_blocks += BLOCKS in propagated
        assert BLOCKS not in text
        assert through(text, "materialize") == through(propagated, "materialize"), seed
    assert with_blocks >= 5


@needs("jax")
def test_shardy_verifies_it() -> None:
    from shard_dialect.ir.reading.source import to_generic

    with_blocks = 0
    for seed, propagated, text in exports(range(80), STABLEHLO):
        if "linalg." in text:  # of programs in stages; jaxlib has no linalg
            continue
        with_blocks += BLOCKS in propagated
        generic = to_generic(text, "exported.mlir", 0)
        assert through(generic, "materialize") == through(propagated, "materialize"), seed
    assert with_blocks >= 5


CALLS = """
sdy.mesh @g = <["x"=2]>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@g, [{"x"}]>]>,
    out_shardings = #sdy.sharding_per_value<[<@g, [{"x"}]>]>,
    manual_axes = #sdy<manual_axes{"x"}>}> ({
  ^bb0(%part: tensor<2xf32>):
    %1 = func.call @double(%part) : (tensor<2xf32>) -> tensor<2xf32>
    "sdy.return"(%1) : (tensor<2xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @double(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


@needs("jax")
@pytest.mark.parametrize("has_locations", [False, True])
@pytest.mark.parametrize("is_generic", [False, True])
def test_shardy_reads_regions_that_call_functions(*, is_generic: bool, has_locations: bool) -> None:
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib.mlir.ir import Module

    module = sd.run_pipeline(sd.parse(CALLS), "export-sdy")
    text = sd.to_text(module, generic=is_generic, locations=has_locations)
    with make_ir_context():
        assert Module.parse(text).operation.verify()
    assert through(text, "spmd") == through(CALLS, "spmd")
