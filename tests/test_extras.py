"""What a run says that it left out."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import extras


def skipped(reason: str) -> Any:
    return SimpleNamespace(longrepr=("file.py", 1, f"Skipped: {reason}"))


def test_what_is_skipped_is_counted_by_extra_and_then_by_other_reasons() -> None:
    files = [(extras.LEFT_OUT, "jax"), (extras.LEFT_OUT, "mpi,torch"), ("other", "jax")]
    passed = [SimpleNamespace(user_properties=[]), SimpleNamespace(user_properties=files)]
    reports = [skipped("without [jax]"), skipped("without [mpi]"), skipped("there is no cc")]
    assert extras.summary(reports, passed) == [
        "skipped without [jax]: 2 tests; pip install -e '.[jax]'",
        "skipped without [mpi]: 1 test; pip install -e '.[mpi]'",
        "skipped without [mpi,torch]: 1 test; pip install -e '.[mpi,torch]'",
        "skipped: 1 test; there is no cc",
    ]


def test_a_test_that_wants_two_extras_names_those_that_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(extras._BRINGS, "torch", "a_module_that_is_nowhere")
    monkeypatch.setitem(extras._BRINGS, "mpi", "sys")
    mark = extras.needs("mpi", "torch")
    assert (mark.args, mark.kwargs) == ((True,), {"reason": "without [torch]"})
    assert extras.of_features(["torch", "mpi"]) == "torch"
    assert not extras.needs("mpi").args[0]
