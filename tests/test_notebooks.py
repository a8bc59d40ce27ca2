"""The notebooks of examples/ run from top to bottom, and show what is stored in them.

They are read where nothing runs them, so their outputs are stored, and each run is compared with
them. This writes them anew:

    python -m tests.test_notebooks && git diff examples
"""

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.extras import needs

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
COLUMN = re.compile(r"(?<=In\[)(\d+\]:\d+):\d+")


def executed(path: Path, folder: Path) -> Any:
    """The notebook with the outputs that it has now, run in this folder by this Python."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    metadata = notebook.metadata.copy()
    client.execute()
    notebook.metadata = metadata  # without the version of this Python
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = list(_joined(cell.outputs))
    return notebook


def _joined(outputs: list[Any]) -> Iterator[Any]:
    """What is printed arrives in as many pieces as the kernel happened to send: all as one."""
    for (kind, stream), group in groupby(
        outputs, lambda each: (each.output_type, each.get("name"))
    ):
        first, *others = group
        if kind == "stream":
            first.text += "".join(each.text for each in others)
            others = []
        assert stream != "stderr", first.text
        yield from (first, *others)


def shown(notebook: Any) -> list[list[dict[str, Any]]]:
    """The outputs of each cell; of a place, each Python tells another column or none."""
    return [
        [
            {
                "type": output.output_type,
                "text": COLUMN.sub(r"\1", output.get("text", "")),
                **{kind: COLUMN.sub(r"\1", text) for kind, text in output.get("data", {}).items()},
            }
            for output in cell.outputs
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(each, id=each.stem, marks=needs("notebooks", each.stem.rpartition("_")[2]))
        for each in NOTEBOOKS
    ],
)
def test_a_notebook_shows_what_is_stored_in_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("XLA_FLAGS")  # the notebook itself asks for devices
    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    assert shown(executed(path, tmp_path)) == shown(stored)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_names_no_place_of_one_machine(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"(?<![\w.<])/(?:home|root|tmp|usr|work|content)/", text)
    assert "site-packages" not in text
    assert "0x" not in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_place_that_the_text_names_is_in_an_output(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    told = "".join("".join(each["source"]) for each in cells if each["cell_type"] == "markdown")
    outputs = json.dumps([each["outputs"] for each in cells if each["cell_type"] == "code"])
    places = re.findall(r"In\[\d+\]:\d+:\d+", told)
    assert places
    assert all(f"{place}: " in outputs for place in places)


def test_there_is_one_for_each_framework() -> None:
    assert [each.stem for each in NOTEBOOKS] == ["first_steps_jax", "first_steps_torch"]


if __name__ == "__main__":
    import nbformat

    for each in NOTEBOOKS:
        each.write_text(nbformat.writes(executed(each, each.parent), indent=1) + "\n")
