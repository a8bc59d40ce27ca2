// Collectives to be lowered are on tensors, whose buffers are made then: one on a buffer is refused.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --lower

shard.grid @g(shape = 4)
func.func @of_an_argument(%m: memref<2xf32>) -> memref<2xf32> {
  // expected-error@+1 {{'shard.all_reduce' op on a memref<2xf32> cannot be lowered: expected a ranked tensor}}
  %r = shard.all_reduce %m on @g grid_axes = [0] : memref<2xf32> -> memref<2xf32>
  return %r : memref<2xf32>
}

// -----

shard.grid @g(shape = 4)
func.func @of_a_tensor(%x: tensor<2xf32>) -> tensor<2xf32> attributes {mesh.form = "local"} {
  %m = bufferization.to_buffer %x : tensor<2xf32> to memref<2xf32>
  // expected-error@+1 {{'shard.all_reduce' op on a memref<2xf32> cannot be lowered: expected a ranked tensor}}
  %r = shard.all_reduce %m on @g grid_axes = [0] : memref<2xf32> -> memref<2xf32>
  %y = bufferization.to_tensor %r restrict : memref<2xf32> to tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

shard.grid @g(shape = 4)
func.func @halos(%m: memref<4xf32>) -> memref<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'shard.update_halo' op on a memref<4xf32> cannot be lowered: expected a ranked tensor}}
  %r = shard.update_halo %m on @g split_axes = [[0]] halo_sizes = [1, 1] : memref<4xf32>
  return %r : memref<4xf32>
}

// -----

shard.grid @g(shape = 4)
func.func @strided(%m: memref<2xf32, strided<[2], offset: 1>>) -> memref<8xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'shard.all_gather' op on a memref<2xf32, strided<[2], offset: 1>> cannot be lowered}}
  %r = shard.all_gather %m on @g grid_axes = [0] gather_axis = 0 : memref<2xf32, strided<[2], offset: 1>> -> memref<8xf32>
  return %r : memref<8xf32>
}

// -----

// A passage to the devices of another grid names no axes: no collective of the local form.
"mesh.cluster"() {sym_name = "a", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.cluster"() {sym_name = "b", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @along_no_axes(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.collective_permute' op cannot be lowered yet}}
  %r = "mesh.collective_permute"(%x) {cluster = @b} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
