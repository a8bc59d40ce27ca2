// RUN: shard-opt %s --verify-diagnostics --lower

shard.grid @g(shape = 2)
func.func @largest(%x: tensor<4xui8>) -> tensor<4xui8> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'shard.all_reduce' op cannot reduce elements of type ui8 by max}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] reduction = max : tensor<4xui8> -> tensor<4xui8>
  return %0 : tensor<4xui8>
}
