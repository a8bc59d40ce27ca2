// What upstream's conversion of StableHLO leaves is loops: a sort of rows, and a scatter into what is split.
//
// RUN: shard-run %s --check | filecheck %s

// CHECK: check passed

shard.grid @g(shape = 4)
func.func @main(%keys: tensor<8x33xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                %values: tensor<8x33xui8> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %into: tensor<20x3xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                %at: tensor<6x1xi32>, %rows: tensor<6x3xf32>)
    -> (tensor<8x33xf32>, tensor<8x33xui8>, tensor<20x3xf32>) {
  %0:2 = "stablehlo.sort"(%keys, %values) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<ui8>, %d: tensor<ui8>):
    %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<8x33xf32>, tensor<8x33xui8>) -> (tensor<8x33xf32>, tensor<8x33xui8>)
  %1 = "stablehlo.scatter"(%into, %at, %rows) <{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
                                                   scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %sum = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<20x3xf32>, tensor<6x1xi32>, tensor<6x3xf32>) -> tensor<20x3xf32>
  return %0#0, %0#1, %1 : tensor<8x33xf32>, tensor<8x33xui8>, tensor<20x3xf32>
}
