// RUN: shard-opt %s --split-input-file --verify-diagnostics --lower

shard.grid @g(shape = 2)
func.func @unknown(%x: tensor<8xf32>, %h: i64) -> tensor<8xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'shard.update_halo' op has a halo size that the program computes as it runs}}
  %0 = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [1, %h] : tensor<8xf32>
  return %0 : tensor<8xf32>
}
