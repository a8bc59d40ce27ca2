// Arguments are masked where they become parts of a sum; an edge says more than the op before it; of
// several meshes those count that the function uses.
//
// REQUIRES: jaxlib
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check
// RUN: shard-run %s --check --entry=edge
// RUN: shard-run %s --check --entry=meshes

sdy.mesh @unused = <["x"=3]>
sdy.mesh @m = <["x"=2, "y"=2]>
sdy.mesh @turned = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {"x"}]>},
                %y: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = sdy.sharded_to_unreduced [{"y"}, {"x"}] %x out_sharding=<@m, [{}, {}], unreduced={"x", "y"}> : tensor<8x8xf32>
  %1 = sdy.all_reduce {"x", "y"} %0 out_sharding=<@m, [{}, {}]> : tensor<8x8xf32>
  %2 = sdy.replicated_to_unreduced {"y"} %y out_sharding=<@m, [{}, {}], unreduced={"y"}> : tensor<8x8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}

// CHECK-LABEL: func.func @edge
// CHECK: -> (tensor<2x8xf32>
func.func @edge(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {"x"}]>]>} %x : tensor<8x8xf32>
  %1 = sdy.data_flow_edge %0 sharding=<@m, [{"y", "x"}, {}]> : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @meshes
func.func @meshes(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %x <@turned, [{}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
