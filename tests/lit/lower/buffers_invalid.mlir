// A collective on a buffer of unknown size is refused, as it is on a tensor.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --lower

shard.grid @g(shape = 4)
func.func @of_an_argument(%m: memref<?xf32>) -> memref<?xf32> {
  // expected-error@+1 {{'shard.all_reduce' op is on a memref<?xf32>, whose size is not known: it cannot be lowered yet}}
  %r = shard.all_reduce %m on @g grid_axes = [0] : memref<?xf32> -> memref<?xf32>
  return %r : memref<?xf32>
}

// -----

shard.grid @g(shape = 4)
func.func @of_a_tensor(%x: tensor<2xf32>) -> tensor<2xf32> attributes {mesh.form = "local"} {
  %m = bufferization.to_buffer %x : tensor<2xf32> to memref<2xf32>
  %d = memref.cast %m : memref<2xf32> to memref<?xf32>
  // expected-error@+1 {{'shard.all_gather' op is on a memref<?xf32>, whose size is not known}}
  %r = shard.all_gather %d on @g grid_axes = [0] gather_axis = 0 : memref<?xf32> -> memref<?xf32>
  return %x : tensor<2xf32>
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
