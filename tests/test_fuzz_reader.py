"""The reader's fuzzer on a few thousand cases, the same at every run; more by hand."""

from pathlib import Path

from tests.fuzz_reader import fuzz


def test_mutated_modules_end_in_success_or_a_located_error(tmp_path: Path) -> None:
    counts, wrong = fuzz(2500, 0, tmp_path)
    assert not wrong
    assert sum(counts.values()) == 2500
    assert counts["accepted"] > 100
    assert counts["refused"] > 1000
