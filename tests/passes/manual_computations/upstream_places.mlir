// Where a device is, in upstream's words: its number, and its index along an axis.

shard.grid @g(shape = 2x4)
func.func @main(%x: tensor<8x16xi32>) -> tensor<8x16xi32> {
  %0 = scf.execute_region -> tensor<8x16xi32> no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0, 1], sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<8x16xi32>) -> tensor<4x4xi32>
    %column = shard.process_multi_index on @g axes = [1] : index
    %number = shard.process_linear_index on @g : index
    %ten = arith.constant 10 : index
    %tens = arith.muli %number, %ten : index
    %sum = arith.addi %tens, %column : index
    %place = arith.index_cast %sum : index to i32
    %places = tensor.splat %place : tensor<4x4xi32>
    %1 = arith.addi %a, %places : tensor<4x4xi32>
    %y = "mesh.to_global"(%1) {manual_axes = [0, 1], sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<4x4xi32>) -> tensor<8x16xi32>
    scf.yield %y : tensor<8x16xi32>
  } {mesh.manual_axes = [0, 1]}
  return %0 : tensor<8x16xi32>
}

// -----

func.func @main(%x: tensor<8x16xi32>) -> tensor<8x16xi32> {
  %four = stablehlo.constant dense<4> : tensor<8x16xi32>
  %ten = stablehlo.constant dense<10> : tensor<8x16xi32>
  %i = stablehlo.iota dim = 0 : tensor<8x16xi32>
  %j = stablehlo.iota dim = 1 : tensor<8x16xi32>
  %row = stablehlo.divide %i, %four : tensor<8x16xi32>
  %column = stablehlo.divide %j, %four : tensor<8x16xi32>
  %begin = stablehlo.multiply %row, %four : tensor<8x16xi32>
  %number = stablehlo.add %begin, %column : tensor<8x16xi32>
  %tens = stablehlo.multiply %number, %ten : tensor<8x16xi32>
  %sum = stablehlo.add %tens, %column : tensor<8x16xi32>
  %0 = stablehlo.add %x, %sum : tensor<8x16xi32>
  return %0 : tensor<8x16xi32>
}
