"""The reader's fuzzer on a thousand cases, the same at every run; more by hand."""

from pathlib import Path

from tests.extras import needs
from tests.ir.fuzz_reader import FOLDERS, ROOT, corpus, fuzz


def test_the_modules_to_start_from_are_in_all_vocabularies() -> None:
    assert all(list((ROOT / folder).glob("*.mlir")) for folder in FOLDERS)
    texts = corpus()
    for words in ("shard.shard ", '"mesh.annotate"', '"sdy.sharding_constraint"'):
        assert sum(words in text for text in texts) > 2, words


def test_mutated_modules_end_in_success_or_a_located_error(tmp_path: Path) -> None:
    counts, wrong = fuzz(1000, 0, tmp_path)
    assert not wrong
    assert sum(counts.values()) == 1000
    assert counts["accepted"] > 40
    assert counts["refused"] > 400


@needs("jax")
def test_mutated_modules_that_jaxlib_reads_end_so_too(tmp_path: Path) -> None:
    assert corpus("pretty")
    counts, wrong = fuzz(500, 0, tmp_path, "pretty")
    assert not wrong
    assert counts["accepted"] > 20
    assert counts["refused"] > 200
