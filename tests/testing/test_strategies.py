"""What the strategies draw can be read, is of the kinds that it should be, and means the same."""

import os
import warnings
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import Grid, Sharding, SubAxis
from shard_dialect.testing import (
    Program,
    any_program,
    grids,
    placed,
    programs,
    reference_of,
    run_and_check,
    runnable,
    samples,
    shardings,
)
from shard_dialect.testing.random_collectives import collective_program
from shard_dialect.testing.random_shardy import shardy_program

pytestmark = pytest.mark.usefixtures("unoptimized")

SEEDS = range(int(os.environ.get("SHARD_DIALECT_PROGRAMS", "80")))
REFUSALS = ("cannot avoid RaW conflict", "has an order of its own: declare parts of one grid")
"""Upstream does not bufferize `materialize_in_destination` beside branches that return both; a
smaller mesh beside one whose devices have an order is a limit (docs/limits.md)."""
GRID = Grid("g", (2, 4))
SHAPE = (6, 5, 8)


@given(st.data())
def test_shardings_are_of_the_shape_and_the_grid(data: st.DataObject) -> None:
    grid = data.draw(grids())
    sharding = data.draw(shardings(SHAPE, grid))
    sharding.check(grid, len(SHAPE))
    assert sharding.rank == len(SHAPE)


@given(shardings(SHAPE, GRID, even=True, sub_axes=True))
def test_even_shardings_divide(sharding: Sharding) -> None:
    assert sharding.uneven_dim(SHAPE, GRID) is None


def test_shardings_are_of_all_kinds() -> None:
    found: list[Sharding] = []

    @settings(max_examples=300, database=None, derandomize=True)
    @given(shardings(SHAPE, GRID, sub_axes=True))
    def collect(sharding: Sharding) -> None:
        found.append(sharding)

    collect()
    splits = {axes for each in found for axes in each.split_axes}
    assert {(), (0,), (1,), (0, 1), (1, 0)} <= splits
    assert any(isinstance(axis, SubAxis) for axes in splits for axis in axes)
    assert any(each.uneven_dim(SHAPE, GRID) is not None for each in found)


@settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.sampled_from(runnable()), st.data())
def test_samples_can_be_read(op: str, data: st.DataObject) -> None:
    sample = data.draw(samples(op))
    with make_context():
        Source.of(placed(sample)).parse()


@settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
@given(programs())
def test_programs_can_be_read(program: Program) -> None:
    with make_context():
        Source.of(program.text).parse()


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_of_all_dialects_are_the_unsharded_ones(seed: int) -> None:
    program = any_program(Random(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        try:
            reference = reference_of(program.unsharded or program.text)
            verdict = run_and_check(program.text, "spmd,lower", reference=reference).verdict
        except ShardError as error:
            known = any(each in str(error) for each in REFUSALS)
            assert known, f"{program}\n{error}"  # noqa: PT017
            return
    assert verdict.passed, f"{program}\n{verdict.failure}"


def test_programs_hold_ops_of_all_dialects_and_control_flow() -> None:
    drawn = {op for seed in range(400) for op in any_program(Random(seed)).ops}
    assert len(drawn & set(runnable())) > 0.95 * len(runnable())
    assert {"scf.for", "scf.if", "stablehlo.while", "stablehlo.case", "func.call"} <= drawn


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (shardy_program, "manual_computation all_to_all reduce_scatter unreduced @small"),
        (collective_program, "mesh.mask mesh.local_split {max= mesh.all_to_all root=[%k send recv"),
    ],
)
def test_programs_with_collectives_are_those_without(
    draw: Callable[[Random], tuple[str, str]], words: str
) -> None:
    """Collectives, meshes and manual computations, against text that has none of them."""
    drawn = [draw(Random(seed)) for seed in SEEDS]
    together = "".join(text for text, _ in drawn).replace(" = ", "=")
    assert not [word for word in words.split() if word not in together]
    for text, unsharded in drawn[:: 1 if len(SEEDS) > 80 else 4]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShardWarning)
            try:
                reference = reference_of(unsharded)
                verdict = run_and_check(text, "spmd,lower", reference=reference).verdict
            except ShardError as error:
                assert any(each in str(error) for each in REFUSALS), f"{text}\n{error}"  # noqa: PT017
                continue
        assert verdict.passed, f"{text}\n{verdict.failure}"
