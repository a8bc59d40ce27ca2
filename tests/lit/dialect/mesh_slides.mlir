// As on the RFC's slides: lists of axes without brackets around them, and () for none.
//
// RUN: shard-opt %s | filecheck %s

mesh.cluster @m(rank = 3, dim_sizes = [2, 2, 2])

// CHECK-LABEL: func.func @dims(%arg0: tensor<2x4x8xf32, #mesh.shard<{{\[\[}}], [], [0, 1, 2]]>>, %arg1: tensor<8x8xf32, #mesh.shard<{{\[\[}}0, 1], []]>>)
// CHECK-NEXT: mesh.all_gather %arg0 {mesh_axis = {{\[\[}}], [], [1, 2]]} : {{.*}} -> tensor<2x4x8xf32, #mesh.shard<{{\[\[}}], [], [0]]>>
// CHECK-NEXT: mesh.collective_permute %arg1 {{.*}} : tensor<8x8xf32, #mesh.shard<{{\[\[}}0, 1], []]>> -> tensor<8x8xf32, #mesh.shard<{{\[\[}}0, 1], []]>>
func.func @dims(%x: tensor<2x4x8xf32, #mesh.shard<[], [], [0, 1, 2]>>, %y: tensor<8x8xf32, #mesh.shard<@m, [0, 1], []>>)
    attributes {mesh_cluster = @m} {
  %0 = mesh.all_gather %x {mesh_axis = [(), ( ), [1, 2]]}
    : tensor<2x4x8xf32, #mesh.shard<[], [], [0, 1, 2]>> -> tensor<2x4x8xf32, #mesh.shard<[], [], [0]>>
  %1 = mesh.collective_permute %y {mesh_axis = [0], permutation = [1, 0]} : tensor<8x8xf32, #mesh.shard<[[0, 1], []]>>
  return
}
