// RUN: shard-opt %s --split-input-file --verify-diagnostics --propagate

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @too_many(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'math.tanh' op has sharding for 2 loops: it has 1}}
  %0 = math.tanh %x {sharding = [[0], []]} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @indivisible(%x: tensor<2x3xf32>) -> tensor<6xf32> attributes {mesh_cluster = @g} {
  // expected-error@+1 {{cannot split loop 1 of size 3 along axes [0] of grid @g(2)}}
  %0 = tensor.collapse_shape %x [[0, 1]] {sharding = [[], [0]]} : tensor<2x3xf32> into tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @no_loops(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh_cluster = @g} {
  // expected-error@+1 {{has an annotation for its loops, but no sharding rule that defines them}}
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tensor<4xf32> {sharding = [[0]]}
  return %0 : tensor<4xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @twice(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mesh_cluster = @g} {
  // expected-error@+1 {{grid axis 0 splits two loops in sharding = [[0], [0]]}}
  %0 = math.tanh %x {sharding = [[0], [0]]} : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
