// A message of the first device to the second: calls of the runtime, or of MPI, which reads a copy that
// is kept until the message is received.
//
// RUN: shard-opt %s --lower | filecheck %s
// RUN: shard-opt %s --lower=target=mpi | filecheck %s --check-prefix=MPI
// RUN: shard-opt %s --overlap-collectives | filecheck %s --check-prefix=WHOLE

shard.grid @g(shape = 2)

// CHECK: func.func private @mesh_send_0
// CHECK-SAME: mesh.collective = {destination = array<i64: 1>, grid = @g, grid_axes = array<i16: 0>, name = "shard.send"}
// CHECK: func.func private @mesh_recv_0
// CHECK-SAME: name = "shard.recv", source = array<i64: 0>
// CHECK: scf.if
// CHECK: call @mesh_send_0
// CHECK: else
// CHECK: call @mesh_recv_0

// MPI: memref.global "private" @mesh_kept_2 : memref<1xi32> = dense<0>
// MPI: memref.global "private" @mesh_kept_1 : memref<1xi64> = uninitialized
// MPI: memref.global "private" @mesh_kept_0 : memref<3xf32> = uninitialized
// MPI: func.func private @mesh_send_0
// MPI: call @MPI_Wait
// MPI: memref.copy {{.*}} : memref<3xf32> to memref<3xf32>
// MPI: call @MPI_Isend
// MPI: func.func private @mesh_recv_0
// MPI: call @MPI_Recv

// WHOLE-NOT: mesh.start
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> attributes {mesh.form = "local"} {
  %rank = shard.process_linear_index on @g : index
  %zero = arith.constant 0 : index
  %first = arith.cmpi eq, %rank, %zero : index
  %r = scf.if %first -> tensor<3xf32> {
    %y = arith.addf %x, %x : tensor<3xf32>
    %sent = shard.send %y on @g grid_axes = [0] destination = [1] : (tensor<3xf32>) -> tensor<3xf32>
    scf.yield %sent : tensor<3xf32>
  } else {
    %got = shard.recv %x on @g grid_axes = [0] source = [0] : (tensor<3xf32>) -> tensor<3xf32>
    scf.yield %got : tensor<3xf32>
  }
  return %r : tensor<3xf32>
}
