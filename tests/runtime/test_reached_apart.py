"""Devices of a group that reach other collectives say so at once, with both places."""

from pathlib import Path

import pytest

from tests.conftest import run_child
from tests.extras import launched
from tests.runtime.launching import Launch

PROGRAM = """
shard.grid @g(shape = 2)
!t = tensor<2xf32>
func.func @main(%x: !t) -> !t attributes {{mesh.form = "local"}} {{
  %index = shard.process_multi_index on @g axes = [0] : index
  %zero = arith.constant 0 : index
  %is_first = arith.cmpi eq, %index, %zero : index
  %r = scf.if %is_first -> !t {{
    %a = shard.all_reduce %x on @g grid_axes = [0] : !t -> !t
    scf.yield %a : !t
  }} else {{
    {other}
    scf.yield %b : !t
  }}
  return %r : !t
}}
"""
SUM = "%b = shard.all_reduce %x on @g grid_axes = [0] : !t -> !t"
LARGEST = SUM.replace(": !t", "reduction = max : !t")
SHIFTED = "%b = shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = 1 rotate : !t -> !t"
NONE = "%b = arith.addf %x, %x : !t"


@pytest.mark.parametrize("launch", launched("devices", "mpi", "mpi4py", "torch"))
@pytest.mark.parametrize(
    ("other", "place"),
    [(LARGEST, "12:10"), (SHIFTED, "12:10"), (NONE, "9:10")],
    ids=["another reduction", "a permutation", "none"],
)
def test_both_places_are_said(launch: Launch, other: str, place: str, tmp_path: Path) -> None:
    file = tmp_path / "apart.mlir"
    file.write_text(PROGRAM.format(other=other))
    done = run_child(launch.forked(2, "-m", "shard_dialect.run", str(file), "--timeout=60"))
    said = done.stdout + done.stderr
    assert done.returncode
    assert "60 s" not in said
    assert "is reached while other devices" in said or "each device has ended, or waits" in said
    assert f"{file}:9:10" in said
    assert f"{file}:{place}" in said


@pytest.mark.parametrize("launch", launched("devices", "mpi", "torch"))
def test_equal_ones_meet(launch: Launch, tmp_path: Path) -> None:
    file = tmp_path / "alike.mlir"
    file.write_text(PROGRAM.format(other=SUM))
    done = run_child(launch.forked(2, "-m", "shard_dialect.run", str(file), "--timeout=60"))
    assert done.returncode == 0, done.stderr
