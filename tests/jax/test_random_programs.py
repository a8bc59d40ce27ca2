"""Random JAX programs: the numbers of `jax.jit`, and the shardings of its results."""

import pytest

from benchmarks.jax_random import compared
from tests.testing.jax_program import JaxProgram

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_is_as_with_jax(seed: int) -> None:
    program = JaxProgram(seed)
    found = compared(program)
    if found["outcome"] != "no program":
        assert found["outcome"] in ("equal", "JAX differs"), f"{found['why']}\n{program.source()}"
        assert not found["other shardings"], program.source()


def test_jax_takes_most_programs() -> None:
    """Else they would test little."""
    outcomes = [compared(JaxProgram(seed))["outcome"] for seed in SEEDS[:4]]
    assert outcomes.count("equal") >= 3


def test_a_seed_is_one_program() -> None:
    assert JaxProgram(5).source() == JaxProgram(5).source()
