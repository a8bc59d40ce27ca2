"""A program for each op of the vocabularies that vocabulary.md names here as one that runs."""

from pathlib import Path

import pytest

from shard_dialect.testing import check_program
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("unoptimized")

PROGRAMS = sorted((ROOT / "tests" / "runs").glob("*.mlir"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_devices_compute_the_unsharded_program(path: Path) -> None:
    verdict = check_program.run_and_check(path.read_text(), "spmd,lower").verdict
    assert verdict.passed, verdict.failure


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_each_program_is_named_in_the_tables(path: Path) -> None:
    assert f"`runs/{path.stem}`" in (ROOT / "tests" / "vocabulary.md").read_text()
