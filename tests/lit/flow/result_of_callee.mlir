// The annotation of a function's result holds for its calls, and passes on from there.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-SAME{LITERAL}: %arg0: tensor<8x4xf32> {mesh.sharding = #mesh.shard<@g, [[1], [0]]>}
// CHECK-SAME{LITERAL}: -> (tensor<8x4xf32> {mesh.sharding = #mesh.shard<@g, [[1], [0]]>})
// CHECK: call @double
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@g, [[1], [0]]>]
// NUMBERS: no communication
// NUMBERS: check passed
func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = math.exp %x : tensor<8x4xf32>
  %1 = call @double(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = math.tanh %1 : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}
func.func private @double(%x: tensor<8x4xf32>)
    -> (tensor<8x4xf32> {mesh.sharding = #mesh.shard<@g, [[1], [0]]>}) attributes {no_inline} {
  %0 = arith.addf %x, %x : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
