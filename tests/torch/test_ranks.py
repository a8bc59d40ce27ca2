"""`sd.torch.partition` on four ranks of gloo, that torchrun starts once for many checks."""

import pytest

from tests.conftest import run_child
from tests.forks import WITH_MODELS
from tests.runtime.launching import launches
from tests.torch.run_on_ranks import CHECKS

pytestmark = pytest.mark.usefixtures("unoptimized")


PARTS = {"models and arguments": list(CHECKS)[:14], "paths and in place": list(CHECKS)[14:]}
"""Each takes minutes."""


@pytest.mark.parametrize("part", PARTS)
def test_on_four_ranks(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKS", " ".join(PARTS[part]))
    (launch,) = (each for each in launches() if each.backend == "torch")
    command = launch.forks(4, "-m", "tests.torch.run_on_ranks", torch=WITH_MODELS)
    done = run_child(command, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    assert [name for word, name in filter(None, said) if word == "done"] == PARTS[part]
