"""Every collective is explained, down to an annotation of the file."""

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.analysis.changes.removals import NotTried, Removal
from shard_dialect.analysis.reasons.communication import Collective
from shard_dialect.errors import ShardError
from shard_dialect.testing import any_program
from tests.conftest import ROOT
from tests.programs.annotated import random_program

EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
ENDS = ("annotated", "the program itself has this")


def ends_at_an_annotation(entry: Collective) -> bool:
    return any(end in entry.why[-1].text for end in ENDS) and entry.why[-1].location is not None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    report = sd.report(sd.parse(path))
    assert report.bytes_moved == sd.communication(sd.parse(path)).bytes_moved
    for entry in report.communication:
        assert entry.location is not None
        assert entry.location.startswith(str(path))
        assert ends_at_an_annotation(entry), entry.why


def test_random_programs() -> None:
    explained = total = 0
    for seed in range(40):
        module = sd.parse(random_program(seed))
        for entry in sd.report(module).communication:
            total += 1
            explained += ends_at_an_annotation(entry)
            assert entry.why
    assert total > 20
    assert explained / total > 0.95


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_programs_of_any_dialect_have_a_report(first: int) -> None:
    """Loops, branches, blocks, stages, several grids: no report fails but with a located error."""
    reported = 0
    for seed in range(first, first + 20):
        program = any_program(random.Random(seed))
        with suppress(ShardError):
            report = sd.report(sd.parse(program.text))
            assert str(report)
            assert all(entry.why for entry in report.communication)
            json.dumps(report.as_json())
            reported += 1
    assert reported >= 12


TWO = """\
shard.grid @g(shape = 2x2) {axis_names = ["data", "model"]}
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                %w: tensor<8x6xf32> {mesh.sharding = #mesh.shard<@g, [[1], []]>})
    -> (tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = stablehlo.exponential %0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
"""


def test_steps_of_a_partial_sum() -> None:
    entry = sd.report(sd.parse(TWO)).communication[0]
    texts = [step.text for step in entry.why]
    assert entry.axes == ("model",)
    assert entry.kind in ("all_reduce", "reduce_scatter")
    assert 'partial sums along ["model"]' in texts[0]
    assert texts[-1] == 'dimension 0 along ["model"]: annotated'
    assert entry.why[-1].location == "<string>:3:17"


def test_an_edit_that_removes_is_true() -> None:
    report = sd.report(sd.parse(TWO), suggest=True)
    removal = report.removals[0]
    assert isinstance(removal, Removal)
    assert (removal.what, removal.before, removal.after) == (
        "w",
        '[["model"], []]',
        "[[], []]",
    )
    edited = TWO.replace("#mesh.shard<@g, [[1], []]>", "#mesh.shard<@g, [[], []]>")
    after = sd.communication(sd.parse(edited)).bytes_moved
    assert report.bytes_moved + removal.bytes_change == after


MERGED = """\
shard.grid @g(shape = 4) {axis_names = ["model"]}
func.func @main(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %w: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""


def test_annotations_of_both_operands_are_tried() -> None:
    module = sd.parse(MERGED)
    read = sd.report(module).communication
    assert [step.location for step in read[0].why if step.annotation][-1] == "<string>:2:17"
    removal = sd.report(module, suggest=True).removals[0]
    assert isinstance(removal, Removal)
    assert removal.what in ("x", "w", "result0")


def test_what_is_not_tried_for_lack_of_time_is_said() -> None:
    report = sd.report(sd.parse(MERGED), suggest=True, suggest_seconds=1e-9)
    assert isinstance(report.removals[0], NotTried)
    assert "not all of its changes are tried" in str(report)
    assert "not_tried" in json.dumps(report.as_json())


SHARED = """\
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                %w: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %v: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> (tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
        tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
"""


def test_who_shares_it() -> None:
    (entry,) = sd.report(sd.parse(SHARED)).communication
    assert entry.kind == "all_gather"
    assert [reader.location for reader in entry.readers] == ["<string>:7:8", "<string>:9:8"]


def test_the_module_is_not_changed() -> None:
    module = sd.parse(TWO)
    before = sd.to_text(module)
    sd.report(module, suggest=True)
    assert sd.to_text(module) == before


def test_transfers_between_stages() -> None:
    report = sd.report(sd.parse(ROOT / "examples" / "pipeline_mlp.mlir"))
    (transfer,) = (each for each in report.communication if each.kind == "collective_permute")
    assert [step.text for step in transfer.why] == [
        "'stablehlo.dot_general' op makes the value on stage @first",
        "'stablehlo.dot_general' op runs on stage @second",
        "the program itself has this 'mesh.collective_permute' op",
    ]
