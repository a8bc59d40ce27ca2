"""Pages that are made from the code are up to date."""

import re
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

from tests.conftest import ROOT


def test_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, "docs/generate.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr


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
