"""Every collective, element type and target of docs/collectives.md."""

import re

import pytest

from tests.conftest import ROOT, run_child
from tests.runtime.collective_cases import DTYPES, GRID, JOIN, cases, refusals
from tests.runtime.launching import Launch, launches

PAGE = ROOT / "docs" / "collectives.md"


@pytest.mark.parametrize("launch", launches(), ids=lambda launch: launch.name)
def test_every_collective_is_right_on_every_element_type(launch: Launch) -> None:
    done = run_child(launch.command(GRID.size, "-m", "tests.runtime.collective_cases"), 600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == f"{len(DTYPES)} element types: every collective is right"


def test_the_table_says_what_is_refused_and_why() -> None:
    text = PAGE.read_text().partition("## Element types")[2]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    assert head[1:] == list(DTYPES)
    names: dict[str, list[str]] = {}
    for case in cases():
        kind, _, reduction = case.name.partition(" ")
        names.setdefault(reduction or kind, []).append(case.name)
    assert [row[0] for row in rows] == list(names)
    assert set(JOIN) < set(names)
    reasons = dict(re.findall(r"^(\d)\. `(.*)`$", text, re.MULTILINE))
    for row in rows:
        for element, cell in zip(head[1:], row[1:], strict=True):
            for name in names[row[0]]:
                message = refusals(element).get(name, "yes")
                reason = reasons.get(cell, cell).replace("KIND", name.partition(" ")[0])
                reason = reason.replace("TYPE", element).replace("REDUCTION", row[0])
                assert reason == message, (name, element)
