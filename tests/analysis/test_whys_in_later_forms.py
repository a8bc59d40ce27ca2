"""Whys of the propagated and distributed forms lead to what the user wrote, where it is known."""

from pathlib import Path

import shard_dialect as sd
from shard_dialect.analysis.program_report import ProgramReport
from tests.conftest import ROOT

EXAMPLE = ROOT / "examples" / "mlp_1d.mlir"


def reported(tmp_path: Path, passes: str, *edits: tuple[str, str]) -> tuple[str, ProgramReport]:
    """The text after some passes, and the report on it."""
    module = sd.parse(EXAMPLE)
    sd.run_pipeline(module, passes)
    text = sd.to_text(module)
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / "later.mlir"
    path.write_text(text)
    return text, sd.report(sd.parse(path))


def line_of(text: str, place: str | None) -> str:
    assert place is not None
    return text.splitlines()[int(place.split(":")[-2]) - 1]


def test_inferred_shardings_are_not_called_annotations(tmp_path: Path) -> None:
    text, report = reported(tmp_path, "propagate")
    ends = [step for each in report.communication for step in each.why if step.annotation]
    assert ends
    for step in ends:
        assert step.text.endswith(": annotated")
        assert "mesh.annotate" in line_of(text, step.location)


def test_the_chain_is_that_of_the_annotated_form(tmp_path: Path) -> None:
    _, report = reported(tmp_path, "propagate")
    before = sd.report(sd.parse(EXAMPLE))
    for each, other in zip(report.communication, before.communication, strict=True):
        assert [step.text for step in each.why] == [step.text for step in other.why]


RELU = "arith.maximumf %5, %cst_0 {mesh.shardings = [#mesh.shard<@grid, [[], [], [0]]>]}"


def test_an_edited_sharding_is_where_the_chain_ends(tmp_path: Path) -> None:
    edited = RELU.replace("[[], [], [0]]", "[[], [0], []]")
    text, report = reported(tmp_path, "propagate", (RELU, edited))
    ends = {
        line_of(text, step.location): step.text
        for each in report.communication
        for step in each.why
        if step.annotation
    }
    found = [shown for line, shown in ends.items() if "mesh.annotate" not in line]
    assert found
    assert all("inferred by an earlier propagation" in shown for shown in found)


def test_types_of_the_distributed_form_are_its_annotations(tmp_path: Path) -> None:
    _, report = reported(tmp_path, "propagate,materialize")
    texts = [step.text for each in report.communication for step in each.why]
    assert "argument 1 is annotated [[], [0]] by its type" in texts
    assert "result 0 is annotated [[], [], [0]] by its type" in texts
    assert not any("no annotation asks" in text for text in texts)
    assert all(each.why[-1].annotation for each in report.communication)
