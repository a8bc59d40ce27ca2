// RUN: shard-opt %s --verify-diagnostics --lower=target=mpi

shard.grid @g(shape = 2)
// expected-error@+1 {{@mesh_mpi_bind is there already, which native MPI code is to have}}
func.func @mesh_mpi_bind(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
