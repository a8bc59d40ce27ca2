// Shardings are found for what has none, in the entry function and on the grid that is asked for.
//
// RUN: shard-opt %s --auto=grid=4,objective=memory --import | filecheck %s
// RUN: shard-opt %s --auto=grid=4,objective=memory --import --entry=other | filecheck %s --check-prefix=OTHER
// RUN: shard-opt %s --auto=grid=4,objective=memory --spmd --report 2>&1 | filecheck %s --check-prefix=NOTE
// RUN: not shard-opt %s --auto=grid=4,memory-limit=8 2>&1 | filecheck %s --check-prefix=LIMIT
// RUN: not shard-opt %s --auto=objective=memory 2>&1 | filecheck %s --check-prefix=BARE

// CHECK: dim_sizes = [4]
// CHECK: @main(%arg0: tensor<8x4xf32>) -> (tensor<8x4xf32> {mesh.sharding = #mesh.shard<@grid
// CHECK: @other(%arg0: tensor<8xf32>) -> tensor<8xf32>
// OTHER: @main(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32>
// OTHER: @other(%arg0: tensor<8xf32>) -> (tensor<8xf32> {mesh.sharding
// NOTE: note: --auto: 0 bytes sent, 64 bytes of memory
// NOTE-SAME: no other is better
// LIMIT: error: no sharding was found with which @main takes 8 bytes on a device: the best one takes
// BARE: error: the module has no grid: say which devices there are, as in grid=2x4
func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %y = stablehlo.exponential %x : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

func.func @other(%z: tensor<8xf32>) -> tensor<8xf32> {
  %y = stablehlo.exponential %z : tensor<8xf32>
  return %y : tensor<8xf32>
}
