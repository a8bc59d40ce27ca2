// Roots and partners that the program computes are operands of the runtime functions. All devices
// of a group must name one root: it is checked before.
//
// RUN: shard-opt %s --lower | filecheck %s
// RUN: shard-opt %s --check-members | filecheck %s --check-prefix=CHECKED
// RUN: shard-opt %s --overlap-collectives --lower=target=mpi | filecheck %s --check-prefix=MPI

// CHECK: func.func private @mesh_broadcast_0(memref<4xf32{{.*}}>, memref<4xf32{{.*}}>, index)
// CHECK: call @mesh_all_reduce_0
// CHECK: call @mesh_broadcast_0(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK: call @mesh_send_0(%{{.*}}, %{{.*}}, %{{.*}})
// MPI: call @MPI_Bcast(

// CHECKED: func @main
// CHECKED: cf.assert %{{.*}}, "{{.*}}computed_roots.mlir:30:8: error: 'shard.broadcast' op names no member of its group as its root: expected 0 to 1"
// CHECKED: shard.all_reduce {{.*}} grid_axes = [0, 1] reduction = max : tensor<2xindex>
// CHECKED: cf.assert %{{.*}}, "{{.*}} error: 'shard.broadcast' op names another root on other devices of its group: expected one for all"
// CHECKED: shard.broadcast
// CHECKED: cf.assert %{{.*}}, "{{.*}} error: 'shard.send' op names no member of its group as its destination
// CHECKED-NOT: shard.all_reduce
// CHECKED: shard.send
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<4xf32>, %t: tensor<1xi64>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {mesh.form = "local"} {
  %c0 = arith.constant 0 : index
  %at = tensor.extract %t[%c0] : tensor<1xi64>
  %root = arith.index_cast %at : i64 to index

  // The second number is known.
  %0 = shard.broadcast %x on @g grid_axes = [0, 1] root = [%root, 1] : (tensor<4xf32>, index) -> tensor<4xf32>
  %1 = shard.send %x on @g grid_axes = [1] destination = [%root] : (tensor<4xf32>, index) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
