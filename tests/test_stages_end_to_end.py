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
