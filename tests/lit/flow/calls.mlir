// A private function called in two ways is two functions; calls that came out alike share one.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

// CHECK: func.func private @layer(%arg0: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [{{\[}}0], []]>}
// CHECK: func.func private @layer_2(%arg0: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [{{\[}}1], []]>}
// CHECK: func.func @main
// CHECK: [[FIRST:%.*]] = call @layer(%arg0, %arg1)
// CHECK: call @layer([[FIRST]], %arg1)
// CHECK: call @layer_2(%arg2, %arg1)
// NUMBERS: no communication
// NUMBERS: check passed
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func private @layer(%a: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {no_inline} {
  %m = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = stablehlo.tanh %m : tensor<8x8xf32>
  return %t : tensor<8x8xf32>
}
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %w: tensor<8x8xf32>, %y: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[1], []]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = call @layer(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @layer(%0, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = call @layer(%y, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}
