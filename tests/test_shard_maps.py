"""JAX's `shard_map` over some axes of a mesh, on devices in this process, against JAX's results."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.executable import Executable
from tests.conftest import ROOT, ended, start_child
from tests.extras import needs

pytestmark = needs("jax")
TEXTS = [path.read_text() for path in sorted((ROOT / "tests/shard_maps").glob("*.py"))]
NAMES = [name for text in TEXTS for name in re.findall(r"^@case\(.*\)\ndef (\w+)", text, re.M)]
VIRTUAL = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all programs, their inputs and what JAX makes of them."""
    folder = tmp_path_factory.mktemp("shard_maps")
    command = [sys.executable, "-m", "tests.shard_maps", str(folder)]
    status, out, err = ended(start_child(command, **VIRTUAL), 300)
    assert status == 0, out + err
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_it_gives_the_numbers_of_jax(name: str, written: Path) -> None:
    with make_context():
        module = Source.read(str(written / f"{name}.mlir")).parse()
        assert "sdy.manual_computation" in str(module)
        run_pipeline(module, "spmd,lower")
        executable = Executable(module, "main")
    with np.load(written / f"{name}.npz") as arrays:
        inputs = [arrays[key] for key in arrays if key.startswith("arg")]
        expected = [arrays[key] for key in arrays if key.startswith("result")]
    program = executable.program
    world = InProcess(program.devices)
    outputs = world.run(executable, [program.scatter(inputs, rank) for rank in world.ranks])
    for rank, shards in enumerate(outputs):
        for result, shard, whole in zip(program.results, shards, expected, strict=True):
            mine = whole[result.shard(rank, program.grids)]
            held = shard[tuple(map(slice, mine.shape))]  # not what is beyond the end of the tensor
            np.testing.assert_allclose(held, mine, rtol=1e-4, atol=1e-5, err_msg=f"device {rank}")
