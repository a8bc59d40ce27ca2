// Two equal messages, sent before any is received: each has its own buffer with native MPI, so that the
// second one does not wait for the first.
//
// RUN: shard-opt %s --lower=target=mpi | filecheck %s

// CHECK: func.func private @mesh_send_0
// CHECK: memref.get_global [[FIRST:@mesh_kept_[0-9]+]] : memref<3xf32>
// CHECK: func.func private @mesh_send_1
// CHECK-NOT: memref.get_global [[FIRST]] :
// CHECK: func.func @main
// CHECK: call @mesh_send_0
// CHECK: call @mesh_send_1
shard.grid @g(shape = 2)
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> attributes {mesh.form = "local"} {
  %one = shard.send %x on @g grid_axes = [0] destination = [1] : (tensor<3xf32>) -> tensor<3xf32>
  %two = shard.send %x on @g grid_axes = [0] destination = [1] : (tensor<3xf32>) -> tensor<3xf32>
  %sum = arith.addf %one, %two : tensor<3xf32>
  return %sum : tensor<3xf32>
}
