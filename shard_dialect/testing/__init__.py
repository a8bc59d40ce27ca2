"""Random samples and programs, for our tests and users' own: needs `shard-dialect[test]`.

    @given(programs())
    def test_(program):
        assert run_and_check(program.text, "spmd,lower").verdict.passed

See docs/testing.md.
"""

from shard_dialect.testing.check_program import (
    Outcome,
    compile_unsharded,
    reference_of,
    run_and_check,
)
from shard_dialect.testing.placement import ShardedSample, placed, sharded_samples
from shard_dialect.testing.random_draws import Draws
from shard_dialect.testing.random_program import Program, any_program
from shard_dialect.testing.sample import Sample, Tensor
from shard_dialect.testing.sample_table import SAMPLES, not_run, runnable, sampled
from shard_dialect.testing.strategies import grids, programs, samples, shardings

__all__ = [
    "SAMPLES",
    "Draws",
    "Outcome",
    "Program",
    "Sample",
    "ShardedSample",
    "Tensor",
    "any_program",
    "compile_unsharded",
    "grids",
    "not_run",
    "placed",
    "programs",
    "reference_of",
    "run_and_check",
    "runnable",
    "sampled",
    "samples",
    "sharded_samples",
    "shardings",
]
