// What cannot be done yet is refused where it stands.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --lower

shard.grid @g(shape = 2)
func.func @of_one_bit(%x: tensor<4xi1>) -> tensor<4xi1> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'shard.reduce' op cannot reduce elements of type i1 by sum}}
  %0 = shard.reduce %x on @g grid_axes = [0] root = [0] : (tensor<4xi1>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

shard.grid @g(shape = 2)
func.func @begun(%x: tensor<2xf32>) -> tensor<2xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op starts a broadcast whose root the program computes as it runs}}
  %s = "mesh.start"(%x) {collective = {name = "shard.broadcast", grid = @g, grid_axes = array<i16: 0>, root = array<i64: -9223372036854775808>}} : (tensor<2xf32>) -> tensor<2xf32>
  %0 = "mesh.done"(%s) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
