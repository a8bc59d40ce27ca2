// With objective=time, reshards are planned for the latency and bandwidth of a device model.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s --check-prefix=BYTES
// RUN: shard-opt %s --propagate --materialize=objective=time,device-model=tpu-v4 | filecheck %s --check-prefix=TIME
// RUN: shard-opt %s --spmd=objective=time,device-model=tpu-v4 | filecheck %s --check-prefix=SPMD
// RUN: shard-opt %s --propagate --materialize --optimize-collectives=objective=time,device-model=tpu-v4 | filecheck %s --check-prefix=KEPT
// RUN: not shard-opt %s --propagate --materialize=objective=time,device-model=nope 2>&1 | filecheck %s --check-prefix=MODEL
// RUN: not shard-opt %s --materialize=objective=memory 2>&1 | filecheck %s --check-prefix=OBJECTIVE

// BYTES-NOT: all_gather
// BYTES: mesh.collective_permute
// TIME: mesh.all_gather %arg0
// TIME-NEXT: mesh.local_split
// SPMD: shard.all_gather
// SPMD-NOT: permute
// KEPT: mesh.collective_permute
// MODEL: error: no device model is named 'nope': expected one of {{.*}}, or a file that ends in .toml
// OBJECTIVE: error: option 'objective' of pass 'materialize' must be one of bytes, time, found 'memory'

shard.grid @g(shape = 4x4)
func.func @main(%x: tensor<16x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [0, 1]]>})
    -> (tensor<16x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [1, 0]]>}) {
  return %x : tensor<16x64xf32>
}
