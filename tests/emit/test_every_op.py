"""Whatever our devices run of the ops that have records is written in Python, and runs."""

import random
from collections.abc import Iterable, Iterator

import pytest

from shard_dialect.model import Grid
from shard_dialect.testing import SAMPLES, Draws, placed, runnable, sharded_samples
from shard_dialect.testing.random_draws import EVEN, UNEVEN
from tests.emit.test_emit_python import FEW, Batch, batch
from tests.slow import seed_of

pytestmark = pytest.mark.usefixtures("unoptimized")
__all__ = ["batch"]
_OF_UPSTREAM = {"stablehlo.rng"}
"""Its numbers are the implementation's own."""
OPS = sorted({*runnable()} - _OF_UPSTREAM)


def programs(op: str) -> Iterator[str]:
    """The op on one device, and cut on two."""
    rng = random.Random(op)
    yield placed(SAMPLES[op](Draws(rng, UNEVEN)), Grid("g", (1,)))
    cuts = [each.text for each in sharded_samples(SAMPLES[op](Draws(rng, EVEN)), Grid("g", (2,)))]
    whole = [each for each in cuts if "offsets" not in each]  # of which files have none
    yield from rng.sample(whole, min(1, len(whole)))


def check_each(batch: Batch, ops: Iterable[str]) -> None:
    for op in ops:
        for number, text in enumerate(programs(op)):
            batch.add(f"{op}-{number}", text)
    assert not batch.refused
    batch.check()


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", ["mpi4py", FEW], indirect=True)
def test_every_op_is_written(batch: Batch) -> None:
    check_each(batch, OPS)


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("batch", ["mpi4py"], indirect=True)
def test_ops_are_written(batch: Batch, request: pytest.FixtureRequest) -> None:
    check_each(batch, random.Random(seed_of(request.config)).sample(OPS, 40))
