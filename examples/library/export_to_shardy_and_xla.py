"""What was decided here, for other compilers: Shardy's annotations, and each device's program.

    pip install 'shard-dialect[jax]'
    python examples/library/export_to_shardy_and_xla.py

The text is what these compilers read.
"""

import numpy as np

import shard_dialect as sd

MODULE = """
shard.grid @g(shape = 2x2) {axis_names = ["data", "model"]}
func.func @main(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>},
                %w: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""

if __name__ == "__main__":
    # Global shapes, and a sharding of each tensor, for Shardy or `jax.jit`'s partitioner.
    shardy = sd.to_text(sd.run_pipeline(sd.parse(MODULE), "propagate,export-sdy"))
    print(shardy)
    assert '#sdy.mesh<["data"=2, "model"=2]>' in shardy

    # Local shapes, and StableHLO's collectives, for any compiler of StableHLO.
    local = sd.to_text(sd.run_pipeline(sd.parse(MODULE), "spmd,lower{target=stablehlo}"))
    print(local)
    assert "stablehlo.all_reduce" in local
    assert "replica_groups" in local

    # XLA compiles that here, too, and runs it on as many devices of the host.
    x, w = np.ones((8, 16), np.float32), np.ones((16, 4), np.float32)
    np.testing.assert_array_equal(sd.run(sd.parse(MODULE), x, w, backend="xla"), x @ w)
