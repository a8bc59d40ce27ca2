"""Random StableHLO programs with control flow and calls, sharded and run, equal the unsharded."""

import os
import warnings

import pytest

from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.programs.runnable_stablehlo import runnable_stablehlo
from tests.test_end_to_end import run_and_check

pytestmark = pytest.mark.usefixtures("unoptimized")

SEEDS = range(int(os.environ.get("SHARD_DIALECT_STABLEHLO_PROGRAMS", "100")))
PIPELINES = (
    ("spmd,lower",),
    (
        "propagate,canonicalize,cse,materialize,canonicalize,cse,optimize-collectives,canonicalize,"
        "cse,partition,canonicalize,cse,lower",
    ),
    ("propagate", "materialize", "optimize-collectives", "partition", "lower"),
    ("propagate,propagate,materialize,partition,lower",),
    ("sink-reshapes,propagate{strategy=user-priority},materialize,partition,lower",),
    ("propagate,materialize", "partition{arguments=whole results=whole}", "lower"),
    ("propagate,canonicalize,cse", "propagate,materialize,canonicalize", "cse,partition,lower"),
)
"""Each in one go, or with its parts printed and read again in between."""
REFUSALS = (
    "does not divide by",
    "they must agree",
    "which cross each other",
    "expected known and equal shapes",
)
"""What the limits say may be refused here."""


@pytest.mark.parametrize("seed", SEEDS)
def test_sharded_equals_unsharded(seed: int) -> None:
    text = runnable_stablehlo(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        try:
            verdict = run_and_check(text, *PIPELINES[seed % len(PIPELINES)])
        except ShardError as error:
            assert error.location, f"{text}\n{error}"  # noqa: PT017
            assert any(each in error.message for each in REFUSALS), f"{text}\n{error}"  # noqa: PT017
            return
    assert verdict.passed, f"{text}\n{verdict.failure}"


def test_few_random_programs_are_refused() -> None:
    refused = 0
    for seed in SEEDS:
        with make_context(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ShardWarning)
            module = Source.of(runnable_stablehlo(seed)).parse()
            try:
                run_pipeline(module, "spmd")
            except ShardError:
                refused += 1
    assert refused <= len(SEEDS) / 20
