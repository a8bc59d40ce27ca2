"""What is asked of a program: other shardings, other programs, and what is not there."""

from importlib import import_module
from pathlib import Path

import pytest

import shard_dialect as sd
from tests.conftest import ROOT

COMMAND = import_module("shard_dialect.report")
SLOW = ROOT / "examples" / "slow_ffn.mlir"


def test_what_if_and_compare_in_python() -> None:
    module = sd.parse(SLOW)
    found = sd.what_if(module, "gate=[[], [model]]", "up=[[], [model]]")
    assert found.after.bytes_moved < found.before.bytes_moved
    fused = sd.what_if(module, "gate=[[], [model]]", allocator="xla")
    assert fused.before.memory.peak == sd.report(module, allocator="xla").memory.peak
    assert fused.before.memory.peak != found.before.memory.peak
    same = sd.compare(found.before, found.before)
    assert same.as_json()["change"] == dict.fromkeys(
        ("bytes", "memory", "flops", "repeated_flops", "seconds"), 0
    )


@pytest.mark.parametrize(
    "flags", [["--entry=f"], ["--show=f"], ["--explain=f"], ["--what-if=f=[[]]"]]
)
def test_what_is_not_there_is_said_with_the_option(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert COMMAND.main([str(SLOW), *flags]) == 1
    assert capsys.readouterr().err.startswith(f"error: {flags[0]}: ")


@pytest.mark.parametrize("text", ["", "module {}"])
def test_nothing_to_report_on(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.mlir"
    path.write_text(text)
    assert COMMAND.main([str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"{path}:1:1: error: ")


def test_axes_and_arguments_have_one_name_in_reports_and_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = str(ROOT / "examples" / "mlp_1d.mlir")
    assert COMMAND.main([program, "--what-if=x=[[a]]"]) == 1
    assert 'grid @grid has no axis "a"; its axes: 0\n' in capsys.readouterr().err
    assert COMMAND.main([program]) == 0
    text = capsys.readouterr().out
    assert "all_gather along 0:" in text
    assert "argument 0, x, comes as [[], [], [0]]" in text


@pytest.mark.parametrize("name", ["gate", "%gate", "arg1", "%arg1"])
def test_an_argument_has_each_of_its_names_at_every_door(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    opt = import_module("shard_dialect.opt")
    for flag in (f"--explain={name}", f"--show={name}", f"--what-if={name}=[[], [model]]"):
        assert COMMAND.main([str(SLOW), flag]) == 0
    assert opt.main([str(SLOW), "--propagate", f"--explain-sharding={name}"]) == 0
    assert "remark: %arg1 is sharded as" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["silu", "%silu", "%2"])
def test_a_value_has_each_of_its_names_at_every_door(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    opt = import_module("shard_dialect.opt")
    for flag in (f"--explain={name}", f"--show={name}"):
        assert COMMAND.main([str(SLOW), flag]) == 0
        assert "%2" in capsys.readouterr().out
    assert opt.main([str(SLOW), "--propagate", f"--explain-sharding={name}"]) == 0
    assert "remark: %2 is" in capsys.readouterr().err


BRACKETS = """
sdy.mesh @mesh = <["tp"=2]>
func.func @main(
    %x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>} loc("p['emb'][0]"))
    -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %y = stablehlo.negate %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""


@pytest.mark.parametrize("name", ["p['emb'][0]", "p['*'][0]", "p[*"])
def test_brackets_in_names_stand_for_themselves(name: str) -> None:
    module = sd.parse(BRACKETS)
    assert sd.show(module, name)
    assert sd.what_if(module, f"{name}=[[], [tp]]").before.bytes_moved
    assert "is sharded as" in sd.explain(sd.report(module), name)


def test_only_stars_are_special() -> None:
    with pytest.raises(sd.ShardError, match=r"is called 'arg\?'"):
        sd.what_if(sd.parse(BRACKETS), "arg?=[[], [tp]]")


@pytest.mark.parametrize("flag", ["--what-if=x=[[data]]", "--show=x"])
def test_a_module_without_a_grid_is_said_to_have_none(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bare.mlir"
    path.write_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %y = stablehlo.negate %x : tensor<4xf32>\n  return %y : tensor<4xf32>\n}\n"
    )
    assert COMMAND.main([str(path), flag]) == 1
    assert "the module has no grid: " in capsys.readouterr().err


@pytest.mark.parametrize("value", ["p['emb']", 'p["emb"]', "p['a\"b']"])
def test_quotes_in_what_is_to_be_explained_reach_the_pass(
    value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opt = import_module("shard_dialect.opt")
    assert opt.main([str(SLOW), "--propagate", f"--explain-sharding={value}"]) == 1
    assert f"there is no value {value} to explain" in capsys.readouterr().err


def test_a_text_with_locations_keeps_names() -> None:
    again = sd.parse(sd.to_text(sd.parse(SLOW), locations=True))
    assert sd.what_if(again, "gate=[[], [model]]").before.bytes_moved


def test_what_is_no_question_is_refused() -> None:
    with pytest.raises(sd.ShardError, match=r"a question is a text such as .*, not a dict"):
        sd.what_if(sd.parse(SLOW), {"gate": [[], ["model"]]})  # type: ignore[arg-type]


def test_options_of_searches_are_read_as_the_command_line_reads_them() -> None:
    module = sd.parse(SLOW)
    with pytest.raises(sd.ShardError, match="objective=speed is none"):
        sd.auto(module, objective="speed")  # type: ignore[arg-type]
    with pytest.raises(sd.ShardError, match="4,096 bytes on a device"):
        sd.auto(module, memory_limit="4KiB", seconds=2)


@pytest.mark.parametrize("path", [str(SLOW), "nothing_here.mlir", __file__])
def test_a_path_in_a_text_is_said_to_be_none(path: str) -> None:
    with pytest.raises(sd.ShardError, match=r"is read as the module's text; .* pathlib\.Path"):
        sd.parse(path)


def test_a_module_stands_for_its_report() -> None:
    module = sd.parse(SLOW)
    assert sd.explain(module, "#4") == sd.explain(sd.report(module), "#4")
    assert sd.report_html(module) == sd.report_html(sd.report(module))
    assert sd.compare(module, sd.report(module)).before == sd.compare(module, module).after
