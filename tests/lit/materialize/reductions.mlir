// A reduction along a split dimension is partial of its kind, and reduced by that kind.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @main
// CHECK: %[[MAX:.*]] = linalg.reduce { arith.maximumf }
// CHECK: %[[PRODUCT:.*]] = linalg.reduce { arith.mulf }
// CHECK: %[[SUM:.*]] = linalg.reduce { arith.addf }
// CHECK: mesh.all_reduce %[[SUM]] {mesh_axis = [0], reduction = "sum"}
// CHECK: arith.addf
// CHECK: mesh.all_reduce %[[MAX]] {mesh_axis = [0], reduction = "max"}
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [[], {max = [0]}]>
// CHECK: mesh.all_reduce %[[PRODUCT]] {mesh_axis = [0], reduction = "product"}
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %columns = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %0 = shard.shard %x to %columns : tensor<4x8xf32>
  %low = arith.constant 0xFF800000 : f32
  %one = arith.constant 1.0 : f32
  %five = arith.constant 5.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %lows = linalg.fill ins(%low : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %ones = linalg.fill ins(%one : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %fives = linalg.fill ins(%five : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %max = linalg.reduce {arith.maximumf} ins(%0 : tensor<4x8xf32>)
                                        outs(%lows : tensor<4xf32>) dimensions = [1]
  %product = linalg.reduce {arith.mulf} ins(%0 : tensor<4x8xf32>)
                                        outs(%ones : tensor<4xf32>) dimensions = [1]
  %sum = linalg.reduce {arith.addf} ins(%0 : tensor<4x8xf32>)
                                    outs(%fives : tensor<4xf32>) dimensions = [1]
  return %max, %product, %sum : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// NUMBERS: check passed
