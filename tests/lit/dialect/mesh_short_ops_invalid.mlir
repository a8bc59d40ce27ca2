// IRDL's ops are written in the generic form: MLIR's parser refuses others without a word.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'mesh.cluster' op has no short form: write it as "mesh.cluster"(...) {...} : (...) -> (...)}}
mesh.cluster @g(rank = 2, dim_sizes = 2x3)
func.func @main() { return }

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh_cluster = @g} {
  %0 = math.exp %x : tensor<4xf32> %1 = math.exp %0 : tensor<4xf32>
  // expected-error@+1 {{'mesh.annotate' op has no short form}}
  %2 = mesh.annotate %1 {sharding = [[0]]} : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// What looks like one in a comment, "mesh.cluster @g", or in a string is none; nor is an attribute's name.
func.func @mesh.cluster(%x: tensor<4xf32>) attributes {mesh.form = "local", mesh.cluster = "mesh.cluster @g"} {
  func.call @mesh.cluster(%x) : (tensor<4xf32>) -> ()
  // expected-error@+1 {{'mesh.size' op has no short form}}
  %0:2 = mesh.size on @g : index, index
  return
}
