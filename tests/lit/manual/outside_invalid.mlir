// Ops of StableHLO that tell devices apart have no meaning on global tensors: they stay, and are not lowered.
//
// RUN: shard-opt %s --spmd --lower --split-input-file --verify-diagnostics

shard.grid @g(shape = 2)
func.func @a_collective(%x: tensor<8xi32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<16xi32> {
  // expected-error @+1 {{'stablehlo.all_gather' op cannot be lowered: there is no code for it that a device could run; if the function is one device's, give it {mesh.form = "local"}}}
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<8xi32>) -> tensor<16xi32>
  return %0 : tensor<16xi32>
}

// -----

shard.grid @g(shape = 2)
func.func @a_number() -> tensor<i32> {
  // expected-warning @+2 {{'stablehlo.partition_id' op has no sharding rule}}
  // expected-error @+1 {{'stablehlo.partition_id' op cannot be lowered}}
  %0 = stablehlo.partition_id : tensor<ui32>
  %1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i32>
  return %1 : tensor<i32>
}
