"""Whys of the propagated and distributed forms lead to what the user wrote, where it is known."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.analysis.program_report import ProgramReport
from shard_dialect.analysis.reasons.local_values import LocalValues, signatures_of
from shard_dialect.analysis.reasons.marks import collective_of, mark_collective
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import read_functions
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid, Sharding
from shard_dialect.passes.framework.pipeline import steps_before
from tests.conftest import ROOT
from tests.programs.annotated import random_program
from tests.programs.flow import random_flow_program
from tests.programs.linalg import random_linalg
from tests.programs.stablehlo import random_stablehlo

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
    """But for the names of arguments, which the text of a module no longer has."""
    _, report = reported(tmp_path, "propagate")
    before = sd.report(sd.parse(EXAMPLE))
    for each, other in zip(report.communication, before.communication, strict=True):
        named = [step.text.replace("argument 0, x, ", "argument 0 ") for step in other.why]
        assert [step.text for step in each.why] == named


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


@pytest.mark.parametrize("name", ["mlp_1d", "mlp_2d", "megatron", "slow_ffn"])
def test_a_local_why_leads_to_the_boundary(tmp_path: Path, name: str) -> None:
    module = sd.parse(ROOT / "examples" / f"{name}.mlir")
    sd.run_pipeline(module, "spmd")
    path = tmp_path / "local.mlir"
    path.write_text(sd.to_text(module))
    report = sd.report(sd.parse(path))
    lines = path.read_text().splitlines()
    assert report.communication
    for each in report.communication:
        assert "op makes the value as" in each.why[0].text or "comes as" in each.why[0].text
        assert each.why[-1].annotation
        assert each.why[-1].text.endswith("at the boundary")
        assert "mesh.argument" in lines[int((each.why[-1].location or "").split(":")[-2]) - 1]


def test_both_sides_of_a_local_collective_are_followed(tmp_path: Path) -> None:
    _, report = reported(tmp_path, "spmd")
    gather, scatter = report.communication
    assert [step.text for step in gather.why] == [
        "argument 0 comes as [[], [], [0]], 'linalg.contract' op takes it as [[], [], []]",
        "'linalg.contract' op has operand 1 split in dimension 1 along [0]",
        "argument 1 is [[], [0]] at the boundary",
        "argument 0 is [[], [], [0]] at the boundary",
    ]
    assert scatter.why[1].text == "result 0 is [[], [], [0]] at the boundary"


def inferred_beside_typed(text: str) -> Iterator[tuple[object, object]]:
    """For each collective the sharding of its operand: as the local form tells, and as it was."""
    module = sd.parse(text)
    sd.run_pipeline(module, steps_before("partition"))
    typed = {}
    with module.context:
        for number, op in enumerate(walk(module.operation)):
            if op.name in COLLECTIVES:
                typed[number] = read_collective(op).source
                mark_collective(op, number)
        sd.run_pipeline(module, "partition,canonicalize,cse")
        shardings = Shardings.of(module.operation)
        signatures = signatures_of(module.operation, shardings)
        for function in read_functions(functions_of(module.operation)):
            values = LocalValues(function, shardings, signatures)
            for op in function.ops:
                number = collective_of(op.location) if values.is_collective(op) else None
                if number in typed:
                    source = typed.pop(number)
                    found = values.sharding(op.operands[0])
                    if found is not None:
                        grid = shardings.grid(source.grid)
                        yield _uses(found, grid), _uses(source, grid)


@pytest.mark.parametrize(
    "program", [random_program, random_stablehlo, random_flow_program, random_linalg]
)
def test_what_is_told_of_a_local_value_is_how_it_was_sharded(
    program: Callable[[int], str],
) -> None:
    known = 0
    for seed in range(60):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sd.ShardWarning)
            try:
                pairs = list(inferred_beside_typed(program(seed)))
            except sd.ShardError:
                continue
        for found, source in pairs:
            known += 1
            assert found == source, program(seed)
    assert known > 5


def _uses(sharding: Sharding, grid: Grid) -> object:
    """The axes of each dimension, and the partial ones, without those of size 1."""
    *split, partial = (
        tuple(axis for axis in axes if grid.axes_size((axis,)) > 1)
        for axes in (*sharding.split_axes, sharding.partial)
    )
    return split, set(partial)


def test_stablehlo_of_one_device_is_on_a_grid_of_its_own(tmp_path: Path) -> None:
    lowered, report = reported(tmp_path, "spmd,lower{target=stablehlo}")
    assert "shard.grid" not in lowered
    before = sd.report(sd.parse(EXAMPLE))
    for each, other in zip(report.communication, before.communication, strict=True):
        same = (each.kind, each.group, each.bytes, each.seconds, each.operand, each.result)
        assert same == (
            other.kind,
            other.group,
            other.bytes,
            other.seconds,
            other.operand,
            other.result,
        )
        assert each.why[0].text.endswith("op takes it")
        assert not any(step.annotation for step in each.why)
    assert report.compute.repeated_flops == 0


@pytest.mark.parametrize(
    ("attributes", "groups", "message"),
    [
        ("mhlo.num_replicas = 4 : i32", "[[0, 1], [2, 3]]", None),
        ("mhlo.num_partitions = 4 : i32", "[[0, 2], [1, 3]]", None),
        ("mhlo.num_replicas = 4 : i32", "[[0, 3], [1, 2]]", "expected all groups"),
        ("mhlo.num_replicas = 4 : i32", "[[0, 1]]", "expected all groups"),
        ("mhlo.num_replicas = 1 : i32", "[[0, 1], [2, 3]]", "whose number is not known"),
        (
            "mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 2 : i32",
            "[[0, 1], [2, 3]]",
            "2 replicas of 2 partitions",
        ),
    ],
)
def test_groups_of_devices_are_those_of_a_grid_or_refused(
    attributes: str, groups: str, message: str | None
) -> None:
    rows, columns = groups.count("[") - 1, groups.split("]")[0].count(",") + 1
    text = f"""module attributes {{{attributes}}} {{
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
    %0 = "stablehlo.all_reduce"(%x) ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) {{replica_groups = dense<{groups}> : tensor<{rows}x{columns}xi64>}}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }}
}}
"""
    if message is not None:
        with pytest.raises(sd.ShardError, match=message):
            sd.report(sd.parse(text))
        return
    (each,) = sd.report(sd.parse(text)).communication
    assert (each.kind, each.group, each.bytes) == ("all_reduce", 2, 128)
