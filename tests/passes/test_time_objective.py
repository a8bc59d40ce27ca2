"""Programs that are planned for time: what they compute stays, and it takes less time."""

import warnings
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.testing import check_program
from tests.conftest import ROOT
from tests.programs.annotated import random_program

FOR_TIME = "spmd{objective=time device-model=%s},lower"
LOCAL = {"bytes": "spmd", "time": "spmd{objective=time device-model=MODEL}"}


def microseconds(path: Path, objective: str, model: str) -> float:
    """The modelled time of the collectives."""
    module = sd.parse(path)
    sd.run_pipeline(module, LOCAL[objective].replace("MODEL", model))
    return sd.report(module, device_model=model).communication_seconds * 1e6


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("model", ["tpu-v4", "cpu-ethernet"])
@pytest.mark.parametrize("seed", range(12))
def test_sharded_equals_unsharded(seed: int, model: str) -> None:
    text = random_program(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        try:
            verdict = check_program.run_and_check(text, FOR_TIME % model).verdict
        except ShardError as error:
            assert "they must agree" in error.message, f"{text}\n{error}"  # noqa: PT017
            return
    assert verdict.passed, f"{text}\n{verdict.failure}"


@pytest.mark.parametrize("model", ["h100", "cpu-ethernet"])
def test_fewer_steps_take_less_time(model: str) -> None:
    example = ROOT / "examples" / "mlp_2d.mlir"
    assert microseconds(example, "time", model) < microseconds(example, "bytes", model)


def test_a_reshard_is_planned_for_the_network(tmp_path: Path) -> None:
    program = tmp_path / "turn.mlir"
    program.write_text(
        "shard.grid @g(shape = 4x4)\n"
        "func.func @main(%x: tensor<16x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [0, 1]]>})\n"
        "    -> (tensor<16x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [1, 0]]>}) {\n"
        "  return %x : tensor<16x64xf32>\n"
        "}\n"
    )
    kinds = {}
    for objective in ("bytes", "time"):
        module = sd.parse(program)
        sd.run_pipeline(module, LOCAL[objective].replace("MODEL", "tpu-v4"))
        kinds[objective] = [each.kind for each in sd.report(module).communication]
    assert kinds == {"bytes": ["collective_permute"], "time": ["all_gather"]}
    assert microseconds(program, "time", "tpu-v4") < microseconds(program, "bytes", "tpu-v4")


def test_an_unknown_device_model_is_refused() -> None:
    module = sd.parse(ROOT / "examples" / "mlp_1d.mlir")
    with pytest.raises(ShardError, match="no device model is named 'nope'"):
        sd.run_pipeline(module, "spmd{objective=time device-model=nope}")
