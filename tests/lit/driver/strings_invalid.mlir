// MLIR's strings are bytes; what is read of them must be UTF-8.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{'func.func' op holds a string that is not UTF-8}}
func.func @"m\FE"(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @rule(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'math.sin' op holds a string that is not UTF-8}}
  %0 = math.sin %x {mesh.sharding_rule = "\FF([i])->([i])"} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @direction(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{holds a string that is not UTF-8}}
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = "\FF"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
