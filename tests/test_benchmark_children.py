"""Child processes of benchmarks: a program that ends its process is told, and the next are run."""

from pathlib import Path

import pytest

from benchmarks.children import in_children

CHILD = """
import os
from benchmarks import children

def found(name):
    if name == "dies":
        os._exit(3)
    return {"name": name}

children.answer(found(name) for name in children.asked())
"""


def test_the_next_go_on_where_one_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "child_that_dies.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    names = ["dies", "a", "b", "dies", "c", "dies"]
    found = list(in_children(["child_that_dies"], names, "died: {}".format))
    died = "died: status 3"
    assert found == [died, {"name": "a"}, {"name": "b"}, died, {"name": "c"}, died]
