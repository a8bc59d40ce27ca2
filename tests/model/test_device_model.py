"""Device models are read from TOML; each mistake is an error that names it."""

from pathlib import Path

import pytest

from shard_dialect.errors import ShardError
from shard_dialect.model.devices.device_model import DeviceModel, device_model_names

TEXT = """
name = "two hosts of four"
sources = []
[flops]
f32 = 1e12
bf16 = 4e12
[memory]
bytes = 1e9
bytes_per_second = 1e11
[[network]]
name = "inside"
devices = 4
bytes_per_second = 1e10
latency = 1e-6
[[network]]
name = "between"
bytes_per_second = 1e9
latency = 1e-5
"""


@pytest.mark.parametrize("name", device_model_names())
def test_packaged_models_are_right_and_have_sources(name: str) -> None:
    model = DeviceModel.read(name)
    assert model.sources
    assert model.network


def test_names() -> None:
    assert device_model_names() == ["a100", "cpu-ethernet", "h100", "tpu-v4", "tpu-v5e", "tpu-v5p"]


def test_a_file_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TEXT)
    model = DeviceModel.read(str(tmp_path / "mine.toml"))
    assert model.memory_bytes == 10**9
    assert [level.devices for level in model.network] == [4, None]
    assert model.flops_per_second("bf16") == 4e12
    assert model.flops_per_second("f64") == 1e12  # not listed: the lowest
    assert [model.place(each) for each in (0, 3, 4, 6)] == [(0, 0), (3, 0), (0, 1), (2, 1)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("f32 = 1e12", "f32 = -1e12", "'f32' of [flops] must be a positive number, found -1"),
        ("f32 = 1e12", 'f32 = "fast"', "'f32' of [flops] must be a positive number, found 'fast'"),
        ("f32 = 1e12", "f32 = nan", "'f32' of [flops] must be a positive number, found nan"),
        ("f32 = 1e12\nbf16 = 4e12", "", "[flops] must be a rate for at least one element type"),
        ("bytes = 1e9", "", "[memory] has no 'bytes'"),
        ("bytes = 1e9", "bytes = true", "'bytes' of [memory] must be a positive number"),
        ("[memory]", "[flops.memory]", "the device model has no 'memory'"),
        ("latency = 1e-6", "", "network level 1 has no 'latency'"),
        ("sources = []", "sources = [1]", "'sources' must be a list of strings, found [1]"),
        ("sources = []", "sources = []\ncolour = 1", "an unknown key 'colour': expected name"),
        ("latency = 1e-6", "latency = -1", "'latency' of network level 1 must be a number, at"),
        ("latency = 1e-6", "lag = 1", "network level 1 has no 'latency'"),
        ("devices = 4", "devices = 2.5", "'devices' of network level 1 must be a positive integer"),
        ("devices = 4", "", "network level 1 has no 'devices': only the last may omit it"),
        ("devices = 4", "devices = 4\nring = 1", "'ring' of network level 1 must be true or false"),
        ('name = "between"', 'name = "b"\ndevices = 6', "joins 6 devices: expected a multiple of"),
        ('name = "between"', 'name = "b"\nring = true', "network level 2 is a ring: expected"),
        ("[memory]", "[memory", "is no TOML"),
        (
            "[memory]",
            "[memory]\ncache_bytes = -1",
            "'cache_bytes' of [memory] must be a number, at",
        ),
        ("[memory]", "[efficiency]\nproducts = 2\n[memory]", "'products' of [efficiency] must be"),
        (
            "[memory]",
            "[efficiency]\nmemory = 0\n[memory]",
            "'memory' of [efficiency] must be a pos",
        ),
        (
            "[memory]",
            "[efficiency]\nlinks = 1\n[memory]",
            "[efficiency] has an unknown key 'links'",
        ),
        ("[flops]", "efficiency = 1\n[flops]", "'efficiency' must be a table, found 1"),
    ],
)
def test_mistakes(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(ShardError) as caught:
        DeviceModel.parse(TEXT.replace(old, new, 1), "mine.toml")
    assert message in caught.value.message
    assert caught.value.location == "mine.toml:1:1"


def test_unknown_names_and_files() -> None:
    with pytest.raises(ShardError, match="no device model is named 'h200': expected one of a100"):
        DeviceModel.read("h200")
    with pytest.raises(ShardError, match=r"the device model '.*mine.toml': no such file"):
        DeviceModel.read("nowhere/mine.toml")


def test_too_many_devices() -> None:
    with pytest.raises(ShardError, match=r"runs on 65 devices, device model 'TPU v4.* has 64"):
        DeviceModel.read("tpu-v4").check_size(65)
    DeviceModel.read("h100").check_size(100_000)


def test_efficiencies_are_parts_of_the_peak_rates() -> None:
    parts = "[efficiency]\nproducts = 0.5\nmemory = 0.25\nnetwork = 0.1\n[memory]\ncache_bytes = 9"
    model = DeviceModel.parse(TEXT.replace("[memory]", parts))
    assert model == DeviceModel.parse(model.to_toml())
    assert model.cache_bytes == 9
    assert model.op_seconds(2e12, "bf16", 1e11) == (1.0, 4.0)
    assert [level.bytes_per_second for level in model.links] == [1e9, 1e8]
    assert [level.bytes_per_second for level in model.network] == [1e10, 1e9]
