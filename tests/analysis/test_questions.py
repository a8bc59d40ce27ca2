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
