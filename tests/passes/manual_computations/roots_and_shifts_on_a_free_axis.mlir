// Collectives with a root, and shifts, along the manual axis; the other axis splits their tensors further.

shard.grid @g(shape = 2x4)
func.func @main(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<8x16xf32> {
  %0 = scf.execute_region -> tensor<8x16xf32> no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [1], sharding = #mesh.shard<@g, [[], [1], {open = [0, 1]}]>} : (tensor<8x16xf32>) -> tensor<8x4xf32>
    %root = shard.broadcast %a on @g grid_axes = [1] root = [1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %shifted = shard.shift %a on @g grid_axes = [1] shift_axis = 1 offset = 1 rotate : tensor<8x4xf32> -> tensor<8x4xf32>
    %all = shard.gather %a on @g grid_axes = [1] gather_axis = 1 root = [0] : (tensor<8x4xf32>) -> tensor<8x16xf32>
    %part = shard.scatter %all on @g grid_axes = [1] scatter_axis = 1 root = [0] : (tensor<8x16xf32>) -> tensor<8x4xf32>
    %1 = arith.addf %root, %shifted : tensor<8x4xf32>
    %2 = arith.mulf %1, %part : tensor<8x4xf32>
    %y = "mesh.to_global"(%2) {manual_axes = [1], sharding = #mesh.shard<@g, [[], [1], {open = [0, 1]}]>} : (tensor<8x4xf32>) -> tensor<8x16xf32>
    scf.yield %y : tensor<8x16xf32>
  } {mesh.manual_axes = [1]}
  return %0 : tensor<8x16xf32>
}

// -----

func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %of_root = stablehlo.slice %x [0:8, 4:8] : (tensor<8x16xf32>) -> tensor<8x4xf32>
  %root = stablehlo.concatenate %of_root, %of_root, %of_root, %of_root, dim = 1 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x16xf32>
  %last = stablehlo.slice %x [0:8, 12:16] : (tensor<8x16xf32>) -> tensor<8x4xf32>
  %others = stablehlo.slice %x [0:8, 0:12] : (tensor<8x16xf32>) -> tensor<8x12xf32>
  %shifted = stablehlo.concatenate %last, %others, dim = 1 : (tensor<8x4xf32>, tensor<8x12xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.add %root, %shifted : tensor<8x16xf32>
  %2 = stablehlo.multiply %1, %x : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
