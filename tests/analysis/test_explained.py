"""`--explain` tells where one sharding came from, and why one collective is there."""

import re
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.opt import main as opt

EXAMPLES = Path("examples")
SLOW = Path("examples/slow_ffn.mlir")


@pytest.fixture(scope="module")
def report() -> sd.ProgramReport:
    return sd.report(sd.parse(SLOW))


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("gate", ['gate is sharded as [["model"], []]', '7:5: dimension 0 along ["model"]: annot']),
        ("arg1", ['gate is sharded as [["model"], []]']),
        ("%gate", ['gate is sharded as [["model"], []]']),
        ("%silu", ['14:11: %2 is sharded as [["data"], []]']),
        ("silu", ['14:11: %2 is sharded as [["data"], []]']),
        ("result0", ['result0 is sharded as [["data"], []]']),
        ("#4", ["#4 all_reduce along model: 393,216 bytes", 'partial sums along ["model"]']),
        ("11:8", ['is sharded as [["data"], []]', "#1 all_to_all along model"]),
        ("examples/slow_ffn.mlir:11:8", ["#1 all_to_all along model"]),
        ("slow_ffn.mlir:18", ['is sharded as [["data"], ["model"]]', "#3 all_to_all"]),
    ],
)
def test_by_name_number_and_place(report: sd.ProgramReport, what: str, expected: list[str]) -> None:
    text = sd.explain(report, what)
    for part in expected:
        assert part in text


@pytest.mark.parametrize(
    "what", ["", "nothing", "#5", "#0", "99", "11:9", "%99", "gate:11:8x", "other.mlir:18"]
)
def test_what_is_not_there(report: sd.ProgramReport, what: str) -> None:
    with pytest.raises(sd.ShardError, match=f"there is nothing called '{what}' to explain"):
        sd.explain(report, what)


@pytest.mark.parametrize(
    "path", sorted(Path("examples").glob("*.mlir")), ids=lambda each: each.stem
)
def test_each_split_ends_at_an_annotation_or_with_fewer_bytes(path: Path) -> None:
    entry = "main" if "func.func @main" in path.read_text() else None
    for each in sd.report(sd.parse(path), entry).tensors:
        steps = each.steps()
        assert bool(steps) == any(each.sharding.split_axes), each
        for dim, axes in enumerate(each.sharding.split_axes):
            assert not axes or any(f"dimension {dim} along" in step.text for step in steps)
        assert not steps or "annotated" in steps[-1].text


def test_names_are_those_that_propagate_prints() -> None:
    module = sd.parse(SLOW)
    names = {each.name for each in sd.report(module).tensors}
    sd.run_pipeline(module, "propagate")
    printed = sd.to_text(module)
    assert {name for name in names if name.startswith("%")} == {f"%{number}" for number in range(6)}
    assert "%5 = stablehlo.dot_general" in printed


@pytest.mark.parametrize(
    ("passes", "name", "expected"),
    [
        ("propagate", "%5", "by 'linalg.contract' op, from operand 1"),
        ("propagate,materialize", "%8", "partial over [0]"),
        ("propagate,materialize", "%0", "#1 all_gather along 0"),
        ("propagate,materialize", "%arg1", "argument 1 is annotated [[], [0]] by its type"),
        ("spmd", "%all_gather", "#1 all_gather along 0"),
        ("spmd", "%arg1", "arg1 is sharded as [[], [0]]"),
        ("spmd", "%3", "%3 is computed on each device, and nothing is communicated for it"),
    ],
)
def test_names_of_any_form(passes: str, name: str, expected: str) -> None:
    module = sd.parse(Path("examples/mlp_1d.mlir"))
    sd.run_pipeline(module, passes)
    assert expected in sd.explain(sd.report(sd.parse(sd.to_text(module))), name)


@pytest.mark.parametrize("name", ["megatron", "slow_ffn", "mlp_2d_mesh", "mlp_stablehlo"])
def test_a_value_has_the_name_that_it_is_printed_with(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = EXAMPLES / f"{name}.mlir"
    assert opt([str(path), "--propagate", "--mlir-print-debuginfo"]) == 0
    printed = capfd.readouterr().out
    places = dict(re.findall(r'^(#loc\d*) = loc\(".*":(\d+:\d+)\)$', printed, re.MULTILINE))
    ops = re.findall(r"^ +(%\d+) = (\S+) .* loc\((#loc\d*)\)$", printed, re.MULTILINE)
    report = sd.report(sd.parse(path))
    known = {each.name: each.location for each in report.tensors}
    for value, op, place in ops:
        if value in known and not op.endswith(("annotate", "sharding_constraint")):
            assert known[value].endswith(places[place]), f"{value} = {op}"
            assert f"{places[place]}: {value}" in sd.explain(report, value)
            assert sd.show(sd.parse(path), value).name == value
    assert len(ops) > 3
