// Two names of one grid are one grid: shardings pass between tensors that name either.
//
// RUN: shard-opt %s --propagate | filecheck %s

"mesh.cluster"() {sym_name = "a", rank = 1 : i64, dim_sizes = [4]} : () -> ()
"mesh.cluster"() {sym_name = "b", rank = 1 : i64, dim_sizes = [4]} : () -> ()
"mesh.cluster"() {sym_name = "turned", rank = 1 : i64, dim_sizes = [4], device_ids = [1, 0, 3, 2]} : () -> ()

// CHECK-LABEL: func.func @both(
// CHECK-SAME:    %arg0: tensor<8xf32> {mesh.sharding = #mesh.shard<@a, {{\[\[}}0]]>}
// CHECK-SAME:    %arg1: tensor<8xf32> {mesh.sharding = #mesh.shard<@a, {{\[\[}}0]]>}
// CHECK-SAME:    -> (tensor<8xf32> {mesh.sharding = #mesh.shard<@a, {{\[\[}}0]]>})
func.func @both(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@a, [[0]]>},
                %y: tensor<8xf32> {mesh.sharding = #mesh.shard<@b, [[0]]>}) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %y : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: func.func @in_another_order(
// CHECK-SAME:    %arg1: tensor<8xf32> {mesh.sharding = #mesh.shard<@turned, {{\[\[}}0]]>}
func.func @in_another_order(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@a, [[0]]>},
                            %y: tensor<8xf32> {mesh.sharding = #mesh.shard<@turned, [[0]]>}) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %y : tensor<8xf32>
  return %0 : tensor<8xf32>
}
