"""Random programs that move elements along split dimensions have the right numbers."""

import warnings

import pytest

from shard_dialect.errors import ShardWarning
from shard_dialect.testing import run_and_check
from tests.extras import needs
from tests.testing.affine_program import AffineProgram

pytestmark = pytest.mark.usefixtures("unoptimized")


@needs("jax")
@pytest.mark.parametrize("is_even", [True, False], ids=["even", "uneven"])
@pytest.mark.parametrize("seed", range(60))
def test_a_program(seed: int, is_even: bool) -> None:
    text = AffineProgram(seed, is_even).text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        verdict = run_and_check(text, "spmd,lower").verdict
    assert verdict.passed, f"{verdict}\n{text}"


def test_the_same_seed_gives_the_same_program() -> None:
    assert AffineProgram(7).text() == AffineProgram(7).text()
    assert len({AffineProgram(seed).text() for seed in range(50)}) > 45
