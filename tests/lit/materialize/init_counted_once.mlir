// The init of a product whose sum is split is added after the reduction, once.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %k_of_a = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %k_of_b = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %a to %k_of_a : tensor<4x8xf32>
  %1 = shard.shard %b to %k_of_b : tensor<8x4xf32>
  // CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK: %[[START:.*]] = linalg.fill ins(%[[ZERO]] : f32)
  // CHECK: %[[PARTIAL:.*]] = linalg.matmul ins(%arg0, %arg1 :
  // CHECK-SAME: outs(%[[START]] :
  // CHECK: %[[SUM:.*]] = mesh.all_reduce %[[PARTIAL]]
  // CHECK: arith.addf %arg2, %[[SUM]] : tensor<4x4xf32>
  %2 = linalg.matmul ins(%0, %1 : tensor<4x8xf32>, tensor<8x4xf32>)
                     outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
// NUMBERS: check passed
