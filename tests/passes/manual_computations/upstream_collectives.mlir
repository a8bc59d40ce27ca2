// Upstream's collectives, the RFC's place of a device, and what the body reads from outside as it is.

shard.grid @g(shape = 2x4)
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %three = arith.constant dense<3.0> : tensor<4x4xf32>
  %cut = stablehlo.slice %x [0:4, 0:4] : (tensor<8x16xf32>) -> tensor<4x4xf32>
  %0 = scf.execute_region -> tensor<8x16xf32> no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0, 1], sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<8x16xf32>) -> tensor<4x4xf32>
    %all = shard.all_gather %a on @g grid_axes = [1] gather_axis = 1 : tensor<4x4xf32> -> tensor<4x16xf32>
    %twice = arith.addf %all, %all : tensor<4x16xf32>
    %own = shard.all_slice %twice on @g grid_axes = [1] slice_axis = 1 : tensor<4x16xf32> -> tensor<4x4xf32>
    %sum = shard.all_reduce %a on @g grid_axes = [0] : tensor<4x4xf32> -> tensor<4x4xf32>
    %at = "mesh.idx"() {cluster = @g, mesh_axis = [1]} : () -> index
    %number = arith.index_cast %at : index to i32
    %place = arith.sitofp %number : i32 to f32
    %places = tensor.splat %place : tensor<4x4xf32>
    %1 = arith.mulf %sum, %places : tensor<4x4xf32>
    %2 = arith.addf %own, %1 : tensor<4x4xf32>
    %3 = arith.mulf %2, %three : tensor<4x4xf32>
    %4 = arith.addf %3, %cut : tensor<4x4xf32>
    %y = "mesh.to_global"(%4) {manual_axes = [0, 1], sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<4x4xf32>) -> tensor<8x16xf32>
    scf.yield %y : tensor<8x16xf32>
  } {mesh.manual_axes = [0, 1]}
  return %0 : tensor<8x16xf32>
}

// -----

func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %three = stablehlo.constant dense<3.0> : tensor<8x16xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %twice = stablehlo.add %x, %x : tensor<8x16xf32>
  %halves = stablehlo.reshape %x : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %half = stablehlo.reduce(%halves init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
  %sums = stablehlo.broadcast_in_dim %half, dims = [1, 2] : (tensor<4x16xf32>) -> tensor<2x4x16xf32>
  %sum = stablehlo.reshape %sums : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
  %numbers = stablehlo.iota dim = 0 : tensor<4xf32>
  %wide = stablehlo.broadcast_in_dim %numbers, dims = [1] : (tensor<4xf32>) -> tensor<8x4x4xf32>
  %places = stablehlo.reshape %wide : (tensor<8x4x4xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.multiply %sum, %places : tensor<8x16xf32>
  %2 = stablehlo.add %twice, %1 : tensor<8x16xf32>
  %3 = stablehlo.multiply %2, %three : tensor<8x16xf32>
  %cut = stablehlo.slice %x [0:4, 0:4] : (tensor<8x16xf32>) -> tensor<4x4xf32>
  %cuts = stablehlo.broadcast_in_dim %cut, dims = [1, 3] : (tensor<4x4xf32>) -> tensor<2x4x4x4xf32>
  %all = stablehlo.reshape %cuts : (tensor<2x4x4x4xf32>) -> tensor<8x16xf32>
  %4 = stablehlo.add %3, %all : tensor<8x16xf32>
  return %4 : tensor<8x16xf32>
}
