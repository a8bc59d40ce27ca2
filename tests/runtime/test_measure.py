"""`shard-report --measure` writes a device model of the devices at hand."""

from importlib import import_module
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.runtime.profiling.measure_devices import levels_of, measured_model
from tests.conftest import ROOT, run_child
from tests.extras import launched
from tests.runtime.launching import Launch

MLP = ROOT / "examples" / "mlp_1d.mlir"


def test_threads(tmp_path: Path) -> None:
    model = measured_model(None, 2)
    assert model.name == "measured: 2 devices on 1 host"
    assert model.flops_per_second("f32") > 1e6
    (level,) = model.network
    assert level.devices is None
    assert level.latency < 10
    file = tmp_path / "here.toml"
    file.write_text(model.to_toml())
    assert sd.report(sd.parse(MLP), device_model=str(file)).schedule.total > 0


@pytest.mark.parametrize("name", ["a100", "h100", "tpu-v4", "tpu-v5e", "tpu-v5p", "cpu-ethernet"])
def test_the_text_of_a_model_is_the_model(name: str) -> None:
    model = DeviceModel.read(name)
    assert DeviceModel.parse(model.to_toml()) == model


@pytest.mark.parametrize(
    ("hosts", "shape", "levels"),
    [
        ("a", (1,), []),
        ("aa", (2,), [("host", (0,))]),
        ("ab", (2,), [("network", (0,))]),
        ("aabb", (2, 2), [("host", (1,)), ("network", (0,))]),
        ("abab", (4,), [("network", (0,))]),
        ("aab", (3,), [("network", (0,))]),
    ],
)
def test_levels_are_hosts_and_what_joins_them(
    hosts: str, shape: tuple[int, ...], levels: list[tuple[str, tuple[int, ...]]]
) -> None:
    grid, found = levels_of(list(hosts))
    assert (grid.shape, found) == (shape, levels)


@pytest.mark.parametrize("launch", launched("mpi4py", "torch"))
def test_ranks(launch: Launch, tmp_path: Path) -> None:
    file = tmp_path / "ranks.toml"
    done = run_child(launch.forked(2, "-m", "shard_dialect.report", f"--measure={file}"), 300)
    assert done.returncode == 0, done.stderr
    assert DeviceModel.read(str(file)).name == "measured: 2 devices on 1 host"


def test_the_file_is_one_that_the_report_reads(capsys: pytest.CaptureFixture[str]) -> None:
    main = import_module("shard_dialect.report").main
    assert main(["--measure=here.json"]) == 1
    assert "ends in .toml" in capsys.readouterr().err
