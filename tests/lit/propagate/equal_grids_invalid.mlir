// Two grids of as many devices are the same devices: parts of one grid are meant where tensors are passed on.
//
// RUN: shard-opt %s --spmd --verify-diagnostics

mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
mesh.cluster @mesh1(rank = 1, dim_sizes = [2])
func.func @main(%0: tensor<4xf32, #mesh.shard<@mesh0, [[0]]>>) -> tensor<4xf32, #mesh.shard<@mesh1, [[0]]>> {
  // expected-error@+1 {{'mesh.collective_permute' op passes a tensor on to @mesh1, which has the same devices as @mesh0: declare one grid of all devices, and the two as its parts, by 'mesh.sub_cluster'}}
  %1 = mesh.collective_permute %0 : tensor<4xf32, #mesh.shard<@mesh0, [[0]]>> -> tensor<4xf32, #mesh.shard<@mesh1, [[0]]>>
  return %1 : tensor<4xf32, #mesh.shard<@mesh1, [[0]]>>
}
