"""The check finds programs that are wrong on purpose, and passes right ones."""

import warnings
from collections import Counter

import pytest

from shard_dialect.errors import ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.testing import run_and_check
from tests.extras import needs
from tests.programs.unstable import unstable_program
from tests.testing.fault_table import table, trials
from tests.testing.faults import faults_in

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
@pytest.mark.parametrize("seed", [26, 34, 53, 71, 80, *range(100, 190)])
def test_no_right_program_that_is_unstable_is_accused(seed: int) -> None:
    """Where the unsharded program is no rounding of exact numbers, nothing is compared."""
    text = unstable_program(seed)
    assert run_and_check(text, "spmd,lower").verdict.passed, text


@needs("jax")
@pytest.mark.exhaustive
def test_of_300_faults_297_are_found_and_no_right_program_fails() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        text, others = table(300, 1000)
    assert not [each for each in others if not each.kind], text
    assert len(others) <= 3, text


def test_a_program_with_a_fault_is_a_program() -> None:
    """A rotation along another axis has that axis as its own."""
    text = """
    shard.grid @g(shape = 2x2)
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = shard.shift %x on @g grid_axes = [1] shift_axis = 1 offset = 1 rotate
        : tensor<4xf32> -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    """
    with make_context():
        module = Source.of(text).parse()
        (fault,) = faults_in(module.operation)
        fault.make()
        assert module.operation.verify()
        assert "grid_axes = [0] shift_axis = 0" in str(module)
