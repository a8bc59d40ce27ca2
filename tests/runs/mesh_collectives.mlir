mesh.cluster @g(rank = 2, dim_sizes = [2, 3])
func.func @main(%x: tensor<12x12xf32, #mesh.shard<[[0], [1]]>>)
    -> tensor<12x12xf32, #mesh.shard<[[], [1, 0]]>> attributes {mesh_cluster = @g} {
  %0 = mesh.all_to_all %x {mesh_axis = [0], concat_axis = 0 : i64, split_axis = 1 : i64}
    : tensor<12x12xf32, #mesh.shard<[[0], [1]]>> -> tensor<12x12xf32, #mesh.shard<[[], [1, 0]]>>
  %1 = mesh.all_gather %0 {mesh_axis = [[], [1, 0]]}
    : tensor<12x12xf32, #mesh.shard<[[], [1, 0]]>> -> tensor<12x12xf32>
  %2 = mesh.mask %1 {mesh_axis = [0, 1], reduction = "sum"}
    : tensor<12x12xf32> -> tensor<12x12xf32, #mesh.shard<[[], [], [0, 1]]>>
  %3 = mesh.all_reduce %2 {mesh_axis = [0], reduction = "sum"}
    : tensor<12x12xf32, #mesh.shard<[[], [], [0, 1]]>>
   -> tensor<12x12xf32, #mesh.shard<[[], [], [1]]>>
  %4 = mesh.reduce_scatter %3 {mesh_axis = [1], reduction = "sum", tensor_axis = 1 : i64}
    : tensor<12x12xf32, #mesh.shard<[[], [], [1]]>> -> tensor<12x12xf32, #mesh.shard<[[], [1]]>>
  %5 = mesh.local_split %4 {sharding = [[], [0]]}
    : tensor<12x12xf32, #mesh.shard<[[], [1]]>> -> tensor<12x12xf32, #mesh.shard<[[], [1, 0]]>>
  %6 = mesh.collective_permute %5 {mesh_axis = [1], permutation = [1, 2, 0]}
    : tensor<12x12xf32, #mesh.shard<[[], [1, 0]]>> -> tensor<12x12xf32, #mesh.shard<[[], [1, 0]]>>
  return %6 : tensor<12x12xf32, #mesh.shard<[[], [1, 0]]>>
}
