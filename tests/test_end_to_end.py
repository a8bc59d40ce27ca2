"""Random programs, sharded, run on devices in this process, equal the unsharded program."""

import os
import warnings

import pytest

from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.checking.check import Verdict
from shard_dialect.testing import check_program
from tests.programs.annotated import random_program

pytestmark = pytest.mark.usefixtures("unoptimized")

SEEDS = range(int(os.environ.get("SHARD_DIALECT_PROGRAMS", "80")))
PIPELINES = (
    "spmd,lower",
    "propagate,canonicalize,cse,materialize,canonicalize,cse,optimize-collectives,canonicalize,"
    "cse,partition,canonicalize,cse,lower",
    "propagate,materialize,partition,lower",
    "propagate,materialize,optimize-collectives,partition{arguments=whole results=whole},lower",
)


def run_and_check(text: str, *parts: str) -> Verdict:
    """Where there are several parts of a pipeline, through text in between."""
    return check_program.run_and_check(text, *parts).verdict


@pytest.mark.parametrize("seed", SEEDS)
def test_sharded_equals_unsharded(seed: int) -> None:
    text = random_program(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        try:
            verdict = run_and_check(text, PIPELINES[seed % len(PIPELINES)])
        except ShardError as error:
            assert "they must agree" in error.message, f"{text}\n{error}"  # noqa: PT017
            return
    assert verdict.passed, f"{text}\n{verdict.failure}"


def test_most_random_programs_are_not_refused() -> None:
    refused = 0
    for seed in SEEDS:
        with make_context():
            module = Source.of(random_program(seed)).parse()
            try:
                run_pipeline(module, "propagate")
            except ShardError:
                refused += 1
    assert refused < len(SEEDS) / 10
