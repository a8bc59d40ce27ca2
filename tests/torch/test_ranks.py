"""`sd.torch.partition` on four ranks of gloo, that torchrun starts once for many checks."""

import random

import pytest

from tests.conftest import run_child
from tests.forks import WITH_MODELS
from tests.runtime.launching import launches
from tests.slow import seed_of
from tests.torch.run_on_ranks import CHECKS

pytestmark = pytest.mark.usefixtures("unoptimized")


PARTS = {"models and arguments": list(CHECKS)[:14], "paths and in place": list(CHECKS)[14:]}
"""Each takes minutes; a third of each half is drawn by the run's seed, without `--all`."""


@pytest.mark.parametrize("part", PARTS)
def test_on_four_ranks(
    part: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = PARTS[part]
    if not request.config.option.all:
        checks = random.Random(seed_of(request.config)).sample(checks, len(checks) // 3)
    monkeypatch.setenv("CHECKS", " ".join(checks))
    (launch,) = (each for each in launches() if each.backend == "torch")
    command = launch.forks(4, "-m", "tests.torch.run_on_ranks", torch=WITH_MODELS)
    done = run_child(command, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    assert [name for word, name in filter(None, said) if word == "done"] == checks
