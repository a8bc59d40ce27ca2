"""Whatever our devices run of the ops that have records is written in Python, and runs."""

import random
from collections.abc import Iterator

import pytest

from shard_dialect.model import Grid
from shard_dialect.testing import SAMPLES, Draws, Sample, placed, runnable
from shard_dialect.testing.random_draws import EVEN, UNEVEN
from tests.emit.test_emit_python import FEW, Batch, batch

pytestmark = pytest.mark.usefixtures("unoptimized")
__all__ = ["batch"]


def samples(count: int) -> Iterator[tuple[str, Sample]]:
    for op in sorted({*runnable()} - {"stablehlo.rng"}):  # whose numbers are upstream's own
        for number in range(count):
            sizes = UNEVEN if number % 2 else EVEN
            yield f"{op}-{number}", SAMPLES[op](Draws(random.Random(f"{op}/{number}"), sizes))


@pytest.mark.parametrize("batch", ["mpi4py", FEW], indirect=True)
def test_every_op_is_written(batch: Batch) -> None:
    for name, sample in samples(2):
        batch.add(name, placed(sample, Grid("g", (1,))))
    assert not batch.refused
    batch.check()
