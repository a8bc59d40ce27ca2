// A function that calls itself has no end to copy it to.
//
// RUN: shard-opt %s --propagate --verify-diagnostics
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func private @f(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{function @f calls itself: without end}}
  %m = call @f(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %m : tensor<8x8xf32>
}
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) -> tensor<8x8xf32> {
  %0 = call @f(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
