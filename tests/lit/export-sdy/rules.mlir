// Shardy's rules give the sizes of their factors, ours may leave them out.
//
// RUN: shard-opt %s --export-sdy | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK{LITERAL}: sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4}>
func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = math.tanh %x {mesh.sharding_rule = "([i, j])->([i, j])"} : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
