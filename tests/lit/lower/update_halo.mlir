// Halos of several dimensions are exchanged along one after the other, each as the first one.
//
// RUN: shard-opt %s --lower | filecheck %s

shard.grid @g(shape = 2x4)

// CHECK: func.func private @mesh_update_halo_0(memref<8x12xf32>, memref<8x12xf32>)
// CHECK-SAME{LITERAL}: split_axes = #shard<axisarray[[0]]>, static_halo_sizes = array<i64: 1, 2>
// CHECK: func.func private @mesh_update_halo_1(memref<12x8xf32>, memref<12x8xf32>)
// CHECK-SAME{LITERAL}: split_axes = #shard<axisarray[[1]]>, static_halo_sizes = array<i64: 3, 4>
// CHECK-LABEL: func.func @main
// CHECK: call @mesh_update_halo_0(%arg0, %[[ROWS:[a-z0-9_]+]])
// CHECK: linalg.transpose ins(%[[ROWS]] : {{.*}}) outs(%[[FIRST:[a-z0-9_]+]]
// CHECK: call @mesh_update_halo_1(%[[FIRST]], %[[MADE:[a-z0-9_]+]])
// CHECK: linalg.transpose ins(%[[MADE]] : {{.*}}) outs(%arg1
func.func @main(%x: tensor<8x12xf32>) -> tensor<8x12xf32> attributes {mesh.form = "local"} {
  %0 = shard.update_halo %x on @g split_axes = [[0], [1]] halo_sizes = [1, 2, 3, 4] : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}
