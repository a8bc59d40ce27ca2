"""Random programs, sharded, run on devices in this process, equal the unsharded program."""

import os
import warnings
from unittest.mock import patch

import numpy as np
import pytest

from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.source import Source
from shard_dialect.passes import lower
from shard_dialect.passes.pipeline import run_pipeline
from shard_dialect.runtime.arrays import random_inputs
from shard_dialect.runtime.check import Verdict, check
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.world import InProcess
from tests.programs import random_program

SEEDS = range(int(os.environ.get("SHARD_DIALECT_PROGRAMS", "80")))
PIPELINES = (
    "spmd,lower",
    "propagate,canonicalize,cse,materialize,canonicalize,cse,optimize-collectives,canonicalize,"
    "cse,partition,canonicalize,cse,lower",
    "propagate,materialize,partition,lower",
    "propagate,materialize,optimize-collectives,partition{arguments=whole results=whole},lower",
)
COPYING = lower._TO_BUFFERS.replace("one-shot-bufferize{", "one-shot-bufferize{copy-before-write ")


def run_and_check(text: str, *parts: str) -> Verdict:
    """Where there are several parts of a pipeline, through text in between.

    The unsharded program writes to no buffer twice.
    """
    with make_context():
        now = text
        for part in parts:
            module = Source.of(now).parse()
            run_pipeline(module, part)
            now = str(module)
        sharded = Executable(module, "main")
        module = Source.of(text).parse()
        with patch.object(lower, "_TO_BUFFERS", COPYING):
            run_pipeline(module, "erase-sharding,lower")
        reference = Executable(module, "main")
    inputs = random_inputs([each.whole for each in sharded.program.arguments], seed=0)
    world = InProcess(sharded.program.devices)
    outputs = world.run(sharded, [sharded.program.scatter(inputs, rank) for rank in world.ranks])
    again = random_inputs([each.whole for each in sharded.program.arguments], seed=0)
    assert all(map(np.array_equal, inputs, again)), "the inputs are as they were"
    return check(sharded, reference, inputs, outputs, world)


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
