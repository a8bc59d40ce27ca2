// What is worked out from constants has a copy for each way in which it is used.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

// CHECK: [[ROWS:%.*]] = stablehlo.broadcast_in_dim {{.*}}[#mesh.shard<@g, [{{\[}}0], []]>]
// CHECK: [[COLUMNS:%.*]] = stablehlo.broadcast_in_dim {{.*}}[#mesh.shard<@g, [{{\[}}], [0]]>]
// CHECK: stablehlo.add %arg0, [[ROWS]]
// CHECK: stablehlo.multiply %arg1, [[COLUMNS]]
// CHECK: stablehlo.subtract %arg0, [[ROWS]]
// NUMBERS: no communication
// NUMBERS: check passed
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                %y: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
  %0 = stablehlo.add %x, %b : tensor<4x8xf32>
  %1 = stablehlo.multiply %y, %b : tensor<4x8xf32>
  %2 = stablehlo.subtract %x, %b : tensor<4x8xf32>
  return %0, %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
