// REQUIRES: jaxlib
// MLIR's inliner crashes on an op with a region that it only parses, where the callee comes later,
// as in all programs of JAX: what Shardy's regions are here is imported before.
// RUN: shard-opt %s --inline | filecheck %s
// RUN: shard-opt %s --inline --spmd | filecheck %s --check-prefix=SPMD

// CHECK: stablehlo.negate
// CHECK: sdy.manual_computation
// CHECK-NOT: call
// SPMD: shard.all_reduce
sdy.mesh @mesh = <["a"=4]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) -> tensor<2xf32> {
  %0 = call @negated(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"a"}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"a"} (%shard: tensor<2xf32>) {
    %2 = "stablehlo.all_reduce"(%shard) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %3 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %2 : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @negated(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.negate %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
