"""Tensors with a dimension of size 0, which is split: programs run, and give what XLA gives."""

import numpy as np
import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.executable import Executable

pytestmark = pytest.mark.usefixtures("unoptimized")

MESH = '"sdy.mesh"() <{mesh = #sdy.mesh<["d"=2, "m"=2]>, sym_name = "mesh"}> : () -> ()\n'
GRID = "shard.grid @mesh(shape = 2x2)\n"
BOTH = '{sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {"m"}]>}'
OTHER = '{sdy.sharding = #sdy.sharding<@mesh, [{"m"}, {"d"}]>}'
WHOLE = "{sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}"

PROGRAMS = {
    "elementwise": (
        f"""{MESH}func.func @main(%x: tensor<0x8xf32> {BOTH}) -> tensor<0x8xf32> {{
          %0 = stablehlo.add %x, %x : tensor<0x8xf32>
          return %0 : tensor<0x8xf32>
        }}""",
        np.zeros((0, 8)),
    ),
    "gathered": (
        f"""{MESH}func.func @main(%x: tensor<0x8xf32> {BOTH}) -> (tensor<0x8xf32> {WHOLE}) {{
          %0 = stablehlo.tanh %x : tensor<0x8xf32>
          return %0 : tensor<0x8xf32>
        }}""",
        np.zeros((0, 8)),
    ),
    "exchanged": (
        f"""{MESH}func.func @main(%x: tensor<0x8xf32> {BOTH}) -> (tensor<0x8xf32> {OTHER}) {{
          %0 = stablehlo.tanh %x : tensor<0x8xf32>
          return %0 : tensor<0x8xf32>
        }}""",
        np.zeros((0, 8)),
    ),
    "a product over nothing": (
        f"""{MESH}func.func @main(%x: tensor<4x0xf32> {BOTH}, %w: tensor<0x8xf32>)
            -> tensor<4x8xf32> {{
          %0 = stablehlo.dot %x, %w : (tensor<4x0xf32>, tensor<0x8xf32>) -> tensor<4x8xf32>
          return %0 : tensor<4x8xf32>
        }}""",
        np.zeros((4, 8)),
    ),
    "a maximum of nothing": (
        f"""{MESH}func.func @main(%x: tensor<0x8xf32> {BOTH}) -> tensor<8xf32> {{
          %z = stablehlo.constant dense<-1.5> : tensor<f32>
          %0 = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [0]
            : (tensor<0x8xf32>, tensor<f32>) -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }}""",
        np.full(8, -1.5),
    ),
    "padded in front alone": (
        f"""{MESH}func.func @main(%x: tensor<0x8xf32> {BOTH}) -> tensor<4x8xf32> {{
          %z = stablehlo.constant dense<1.5> : tensor<f32>
          %0 = stablehlo.pad %x, %z, low = [4, 0], high = [0, 0], interior = [0, 0]
            : (tensor<0x8xf32>, tensor<f32>) -> tensor<4x8xf32>
          return %0 : tensor<4x8xf32>
        }}""",
        np.full((4, 8), 1.5),
    ),
    "padded": (
        f"""{MESH}func.func @main(%x: tensor<0x8xf32> {BOTH}) -> (tensor<4x8xf32> {OTHER}) {{
          %z = stablehlo.constant dense<2.5> : tensor<f32>
          %0 = stablehlo.pad %x, %z, low = [1, 0], high = [3, 0], interior = [0, 0]
            : (tensor<0x8xf32>, tensor<f32>) -> tensor<4x8xf32>
          return %0 : tensor<4x8xf32>
        }}""",
        np.full((4, 8), 2.5),
    ),
    "joined": (
        f"""{MESH}func.func @main(%x: tensor<0x8xf32> {BOTH}) -> (tensor<4x8xf32> {OTHER}) {{
          %y = stablehlo.constant dense<3.0> : tensor<4x8xf32>
          %0 = stablehlo.concatenate %x, %y, dim = 0
            : (tensor<0x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
          return %0 : tensor<4x8xf32>
        }}""",
        np.full((4, 8), 3.0),
    ),
    "reshaped": (
        f"""{MESH}func.func @main(%x: tensor<0x8xf32> {BOTH}) -> tensor<4x0x2xf32> {{
          %0 = stablehlo.reshape %x : (tensor<0x8xf32>) -> tensor<4x0x2xf32>
          return %0 : tensor<4x0x2xf32>
        }}""",
        np.zeros((4, 0, 2)),
    ),
    "a product of linalg": (
        f"""{GRID}func.func @main(
            %x: tensor<8x0xf32> {{mesh.sharding = #mesh.shard<@mesh, [[0], [1]]>}},
            %y: tensor<0x8xf32>) -> tensor<8x8xf32> {{
          %one = arith.constant dense<1.0> : tensor<8x8xf32>
          %0 = linalg.matmul ins(%x, %y : tensor<8x0xf32>, tensor<0x8xf32>)
                             outs(%one : tensor<8x8xf32>) -> tensor<8x8xf32>
          return %0 : tensor<8x8xf32>
        }}""",
        np.ones((8, 8)),
    ),
    "annotated by upstream's ops": (
        f"""{GRID}func.func @main(%x: tensor<0x8xf32>) -> tensor<0x8xf32> {{
          %s = shard.sharding @mesh split_axes = [[0], [1]] : !shard.sharding
          %x1 = shard.shard %x to %s : tensor<0x8xf32>
          %0 = math.exp %x1 : tensor<0x8xf32>
          %t = shard.sharding @mesh split_axes = [[1], [0]] : !shard.sharding
          %y = shard.shard %0 to %t : tensor<0x8xf32>
          %y1 = shard.shard %y to %t annotate_for_users : tensor<0x8xf32>
          return %y1 : tensor<0x8xf32>
        }}""",
        np.zeros((0, 8)),
    ),
}


@pytest.mark.parametrize(("text", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_split_dimension_of_size_0_runs(text: str, expected: np.ndarray) -> None:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "spmd,lower")
        executable = Executable(module, "main")
    program = executable.program
    inputs = [
        np.empty(each.global_type.shape, each.global_type.dtype) for each in program.arguments
    ]
    assert any(each.size == 0 for each in inputs)
    world = InProcess(program.devices)
    outputs = world.run(executable, [program.scatter(inputs, rank) for rank in world.ranks])
    assert len(outputs) == 4
    for rank, (shard,) in enumerate(outputs):
        mine = expected[program.results[0].shard(rank, program.grids)]
        np.testing.assert_array_equal(shard, mine.astype(np.float32))
