"""Examples in one process and on four ranks, beside what torch itself makes of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_child
from tests.forks import WITH_MODELS
from tests.runtime.launching import launches

pytestmark = pytest.mark.usefixtures("unoptimized")

EXAMPLE = "examples/llama_torch.py"


def ranks(example: str) -> list[str]:
    (launch,) = (each for each in launches() if each.backend == "torch")
    return launch.forks(4, example, torch=WITH_MODELS)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = run_child(list(command), timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def losses(done: subprocess.CompletedProcess[str]) -> dict[str, list[float]]:
    """Of each part of the batch, in the order of the steps."""
    found: dict[str, dict[float, None]] = {}
    for loss, part in re.findall(r"loss ([\d.]+), of (part \d)", done.stdout):
        found.setdefault(part, {})[float(loss)] = None  # ranks that have the same part say the same
    assert {len(each) for each in found.values()} == {3}, done.stdout
    return {part: list(each) for part, each in found.items()}


def test_the_same_in_process_and_on_ranks() -> None:
    here, there = run(sys.executable, EXAMPLE), run(*ranks(EXAMPLE))
    ours = [float(line.rpartition(" ")[2]) for line in here.stdout.splitlines()]
    assert len(ours) == 3
    assert ours == sorted(ours, reverse=True)
    theirs = [float(line.rpartition(" ")[2]) for line in there.stdout.splitlines()]
    assert theirs == pytest.approx(ours, abs=2e-4)


@pytest.mark.parametrize(("name", "near"), [("fsdp2", 1e-2), ("tensor_parallel", 2e-4)])
def test_as_with_the_imports_of_torch(name: str, near: float, tmp_path: Path) -> None:
    """The example, and the same program with the functions of torch."""
    path = ROOT / "examples" / f"{name}_torch.py"
    text = re.sub(
        "^from shard_dialect.torch import fully_shard(.*)$",
        "from torch.distributed.fsdp import fully_shard\n"
        "from torch.distributed.tensor.parallel import parallelize_module",
        path.read_text(),
        flags=re.MULTILINE,
    )
    other = tmp_path / path.name
    other.write_text(text)
    ours, theirs = (losses(run(*ranks(str(each)))) for each in (path, other))
    assert "shard_dialect.torch" not in text
    for part, each in theirs.items():
        assert ours[part] == pytest.approx(each, abs=near)
    whole = losses(run(sys.executable, str(path)))["part 1"]
    parts = list(theirs.values())
    assert whole == pytest.approx(
        [sum(each) / len(parts) for each in zip(*parts, strict=True)], abs=near
    )


def test_the_same_text_is_generated() -> None:
    done = run(sys.executable, "examples/generate_torch.py")
    ours, theirs = done.stdout.splitlines()
    assert ours == theirs
