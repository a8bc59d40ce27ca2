"""Whys in a training step of GPT-2, as Flax writes it: each leads to an annotation of the file."""

from pathlib import Path

import pytest

from shard_dialect.analysis.program_report import ProgramReport, report_on
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from tests.extras import needs

NAMES = ("stablehlo.dot_general", "stablehlo.transpose")
pytestmark = needs("examples", "jax")


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], ProgramReport]:
    from benchmarks.flax_models import flax_module

    path: Path = tmp_path_factory.mktemp("flax") / "gpt2.mlir"
    path.write_text(flax_module("gpt2", training=True))
    source = Source.read(str(path))
    with make_context(), source.file_locations():
        report = report_on(source.parse(), file_text=source.file_text)
    return path.read_text().splitlines(), report


def line_of(lines: list[str], location: str | None) -> str:
    assert location is not None
    return lines[int(location.split(":")[-2]) - 1]


def test_each_why_ends_at_an_annotation(step: tuple[list[str], ProgramReport]) -> None:
    lines, report = step
    assert len(report.communication) > 50
    for each in report.communication:
        last = each.why[-1]
        assert last.annotation
        assert "sdy.sharding" in line_of(lines, last.location)


def test_each_step_names_the_op_of_its_place(step: tuple[list[str], ProgramReport]) -> None:
    lines, report = step
    for each in report.communication:
        for reason in each.why:
            line = line_of(lines, reason.location)
            named = [name for name in NAMES if name in line]
            said = [name for name in named if f"'{name}' op" in reason.text]
            assert said or not named, reason


def test_the_gradient_of_the_embedding_is_followed(step: tuple[list[str], ProgramReport]) -> None:
    """A sum over the vocabulary, along which the embedding is split."""
    _, report = step
    sums = [
        each
        for each in report.communication
        if each.kind == "all_reduce" and each.axes == ("model",) and each.bytes == 393_216
    ]
    assert sums
    texts = [reason.text for reason in sums[0].why]
    assert any("sums over dimension 2 of operand 0, which is split" in text for text in texts)
    assert texts[-1] == 'dimension 0 along ["model"]: annotated'
