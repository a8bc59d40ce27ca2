"""Each StableHLO op, split in every way that its rule allows, gives the shards of the whole op."""

import pytest

from tests.extras import needs
from tests.ops.interpreted import run, trials
from tests.ops.stablehlo_ops import COMPILED, INTERPRETED, Family, drawn


def check(family: Family, runner: str, count: int, tolerance: float = 0) -> None:
    made = [
        trial for case in drawn(family).values() for trial in trials(case.name, str(case), count)
    ]
    assert made
    calls = [list(trial.calls()) for trial in made]
    outputs = iter(run(runner, [call for each in calls for call in each]))
    for trial, each in zip(made, calls, strict=True):
        trial.check([next(outputs) for _ in each], tolerance)


@pytest.mark.parametrize("family", INTERPRETED.values(), ids=INTERPRETED)
def test_shards_of_the_op_are_the_op_on_shards(family: Family) -> None:
    check(family, "interpreter", count=4)


@needs("jax")
@pytest.mark.parametrize("family", COMPILED.values(), ids=COMPILED)
def test_shards_of_what_only_xla_runs(family: Family) -> None:
    check(family, "xla", count=1, tolerance=1e-5)
