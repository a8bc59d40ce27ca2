"""Many more devices in one process than the machine has cores."""

import json
from pathlib import Path

import pytest

from tests.conftest import Program

LAYER = """
shard.grid @g(shape = ROWSxCOLUMNS)
func.func @main(%x: tensor<256x32xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
                %w: tensor<32x128xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>},
                %v: tensor<128x32xf32> {mesh.sharding = #mesh.shard<@g, [[1]]>})
    -> (tensor<256x32xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<256x32xf32>, tensor<32x128xf32>) -> tensor<256x128xf32>
  %1 = stablehlo.tanh %0 : tensor<256x128xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
    : (tensor<256x128xf32>, tensor<128x32xf32>) -> tensor<256x32xf32>
  %3 = stablehlo.add %2, %x : tensor<256x32xf32>
  return %3 : tensor<256x32xf32>
}
"""
"""Reductions in groups along one axis."""

TURNED = """
shard.grid @g(shape = ROWSxCOLUMNS)
func.func @main(%x: tensor<256x256xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>})
    -> (tensor<256x256xf32> {mesh.sharding = #mesh.shard<@g, [[1, 0]]>},
        tensor<256x256xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}) {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %1 = stablehlo.exponential %0 : tensor<256x256xf32>
  %2 = stablehlo.tanh %x : tensor<256x256xf32>
  return %1, %2 : tensor<256x256xf32>, tensor<256x256xf32>
}
"""
"""Exchanges."""

WINDOWS = """
shard.grid @g(shape = ROWSxCOLUMNS)
func.func @main(%x: tensor<384x4xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1]]>})
    -> (tensor<384x4xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1]]>}, tensor<f32>,
        tensor<384x4xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1]]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 5, 1>,
      padding = dense<[[2, 2], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<384x4xf32>, tensor<f32>) -> tensor<384x4xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0, 1]
    : (tensor<384x4xf32>, tensor<f32>) -> tensor<f32>
  %2 = stablehlo.tanh %x : tensor<384x4xf32>
  return %0, %1, %2 : tensor<384x4xf32>, tensor<f32>, tensor<384x4xf32>
}
"""
"""Halos from neighbours, and a reduction over all."""

GRIDS = [(8, 8), (2, 32), (16, 8), (64, 2)]
PROGRAMS = {"layer": LAYER, "turned": TURNED, "windows": WINDOWS}


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_more_devices_than_cores(
    name: str, grid: tuple[int, int], run: Program, tmp_path: Path
) -> None:
    rows, columns = grid
    program = tmp_path / "in.mlir"
    text = PROGRAMS[name].replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    program.write_text(text)
    done = run(program, "--check", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["devices"] == rows * columns
    assert report["check"]["passed"]
    assert report["totals"]["count"] > 0


@pytest.mark.parametrize("grid", [(8, 8), (16, 8)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_more_devices_than_cores_between_start_and_done(
    name: str, grid: tuple[int, int], opt: Program, run: Program, tmp_path: Path
) -> None:
    rows, columns = grid
    source, program = tmp_path / "in.mlir", tmp_path / "overlapped.mlir"
    text = PROGRAMS[name].replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    source.write_text(text)
    made = opt(source, "--spmd", "--overlap-collectives", "-o", program)
    assert made.returncode == 0, made.stderr
    assert "start" in program.read_text()
    done = run(program, "--check", "--json", f"--reference={source}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["check"]["passed"]
