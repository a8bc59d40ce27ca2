// What cannot be done yet is refused where it stands.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --lower

shard.grid @g(shape = 2)
func.func @an_unknown_root(%x: tensor<4xf32>, %i: index) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{has a root that is not known: not supported yet}}
  %0 = shard.broadcast %x on @g grid_axes = [0] root = [%i] : (tensor<4xf32>, index) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @of_one_bit(%x: tensor<4xi1>) -> tensor<4xi1> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'shard.reduce' op cannot reduce elements of type i1 by sum}}
  %0 = shard.reduce %x on @g grid_axes = [0] root = [0] : (tensor<4xi1>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

shard.grid @g(shape = 2)
func.func @sent(%x: tensor<4xf32>, %d: index) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{has a destination that is not known: not supported yet}}
  %0 = shard.send %x on @g grid_axes = [0] destination = [%d] : (tensor<4xf32>, index) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
