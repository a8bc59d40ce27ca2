// Shards without rows have nothing to exchange, whoever does it.
//
// RUN: shard-opt %s --lower=target=mpi | filecheck %s
// RUN: shard-run %s | filecheck %s --check-prefix=MOVED

// MOVED: update_halo 0 2 0x4xf32 0x4xf32 0
shard.grid @g(shape = 2)

// CHECK-NOT: MPI_
// CHECK: func.func private @mesh_update_halo_0(%{{.*}}: memref<0x4xf32>, %{{.*}}: memref<0x4xf32>)
// CHECK-NOT: call @MPI_
func.func @main(%x: tensor<0x4xf32>) -> tensor<0x4xf32> attributes {mesh.form = "local"} {
  %0 = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [0, 0] : tensor<0x4xf32>
  return %0 : tensor<0x4xf32>
}
