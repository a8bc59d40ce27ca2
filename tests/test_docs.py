"""Pages that are made from the code are up to date."""

import re
import shlex
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`docs/generate.py`, imported: its table of cuts is then made once for all tests."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return import_module("generate")


def test_generated_pages_are_up_to_date(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 0, capsys.readouterr().out


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return import_module("cuts")


def test_what_is_not_cut_in_any_way_has_its_reason(cuts: ModuleType) -> None:
    used = set()
    for op in cuts.SAMPLES:
        for kind in (*cuts.KINDS, "none"):
            if cuts.needs_reason(op, kind):
                assert cuts.reasons_of(op, kind), f"{op} {kind}"
                used.update(cuts.reasons_of(op, kind))
    assert used == set(cuts.REASONS)


def test_reasons_stand_in_the_limits(cuts: ModuleType) -> None:
    limits = (ROOT / "docs" / "limits.md").read_text()
    assert {f'<a id="{reason}">' for reason in cuts.REASONS} <= set(
        re.findall(r'<a id="\w+">', limits)
    )


CONSOLE = [
    (path, number, block)
    for path in sorted((ROOT / "docs").glob("*.md"))
    for number, block in enumerate(
        re.findall(r"^```console\n(.*?)^```$", path.read_text(), re.M | re.S)
    )
]


@pytest.mark.parametrize(
    ("path", "block"),
    [pytest.param(path, block, id=f"{path.stem}-{number}") for path, number, block in CONSOLE],
)
def test_a_command_prints_what_the_page_says(
    path: Path, block: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`...` stands for any number of lines."""
    monkeypatch.chdir(ROOT)
    command, _, expected = block.partition("\n")
    program, *arguments = shlex.split(command.removeprefix("$ "))
    assert import_module(f"shard_dialect.{program.removeprefix('shard-')}").main(arguments) == 0
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line) + r" *\n"
        for line in expected.splitlines()
    )
    assert re.fullmatch(pattern, capsys.readouterr().out)
