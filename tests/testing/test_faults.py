"""The check finds programs that are wrong on purpose, and passes right ones."""

import warnings
from collections import Counter

import pytest

from shard_dialect.errors import ShardWarning
from tests.extras import needs
from tests.testing.fault_table import table, trials

pytestmark = pytest.mark.usefixtures("unoptimized")


@needs("jax")
@pytest.mark.parametrize("seed", range(12))
def test_a_fault_is_found(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        right, *wrong = trials(seed, Counter())
    assert right.verdict.passed, right.verdict
    for each in wrong:
        assert not each.verdict.passed, each


@needs("jax")
@pytest.mark.exhaustive
def test_of_300_faults_297_are_found_and_no_right_program_fails() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        text, others = table(300, 1000)
    assert not [each for each in others if not each.kind], text
    assert len(others) <= 3, text
