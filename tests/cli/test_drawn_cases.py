"""Whatever a program is given, and however it ends: an error in words, and nobody's files harmed.

The cases are drawn by number (`tests/hostile/drawn_cases.py`, which tries any of them).
"""

from pathlib import Path

import pytest

from tests.forks import Forks
from tests.hostile.drawn_cases import command_of, draw, faults_of


@pytest.mark.parametrize("number", range(400))
def test_no_case_has_a_fault(number: int, forks: Forks, tmp_path: Path) -> None:
    case = draw(number, tmp_path)
    assert faults_of(case, tmp_path, command_of(case, forks)) == [], case
