"""Each cell of the table of docs/running.md, run."""

import json

import pytest

from tests.conftest import ROOT, run_child
from tests.extras import launched, needs
from tests.runtime.collective_cases import GRID
from tests.runtime.launching import Launch
from tests.runtime.table_cases import ROWS, WHO


def table() -> dict[str, dict[str, str]]:
    """The cells by the column, and by the row's first one."""
    text = (ROOT / "docs" / "running.md").read_text().partition("What each can run:")[2]
    lines = text.strip().partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    (_, *columns), _, *rows = cells
    return {
        column: {row[0]: row[1 + number] for row in rows} for number, column in enumerate(columns)
    }


def check(column: str, launch: Launch, *more: str) -> None:
    said = table()[column]
    done = run_child(launch.forked(GRID.size, "-m", "tests.runtime.table_cases", *more))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop(WHO) == said.pop(WHO)
    is_run = {name: outcome == "yes" for name, outcome in found.items()}
    assert is_run == {name: cell == "yes" for name, cell in said.items()}, found
    refused = [outcome for outcome in found.values() if outcome != "yes"]
    assert all("error: " in each for each in refused), refused


def test_the_table_has_a_program_for_each_row() -> None:
    for column in table().values():
        assert list(column) == [WHO, *ROWS]
        assert set(column.values()) <= {"yes", "no", "we", "torch", "XLA"}


@pytest.mark.parametrize("launch", launched("devices", "mpi", "mpi4py", "torch"))
def test_our_own_code(launch: Launch) -> None:
    check(f"`{launch.backend}`", launch)


@pytest.mark.parametrize("launch", launched("torch"))
def test_the_compiler_torch(launch: Launch) -> None:
    check("`torch`, `--compiler=torch`", launch, "--compiler=torch")


@needs("jax")
def test_xla() -> None:
    check("`xla`", Launch("xla", "xla"))
