// An op whose operands are on two stages has the second one passed on to it; all devices come first.
//
// RUN: shard-opt %s --propagate --mesh-pretty | filecheck %s
// RUN: shard-run %s --check

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "first", cluster = @g, offsets = [0, 0], sizes = [1, 4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "second", cluster = @g, offsets = [1, 0], sizes = [1, 4]} : () -> ()

// CHECK: func.func @main(%[[X:.*]]: tensor<8xf32>{{.*}}, %[[Y:.*]]: tensor<8xf32>{{.*}}, %[[Z:.*]]: tensor<8xf32>
func.func @main(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@first, [[1]]>},
                %y: tensor<8xf32> {mesh.sharding = #mesh.shard<@second, [[1]]>},
                %z: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1]]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[A:.*]] = mesh.collective_permute %[[Y]] {{.*}}shard_dialect.stages = [@second, @first]
  // CHECK: %[[S:.*]] = stablehlo.add %[[X]], %[[A]]
  %0 = stablehlo.add %x, %y : tensor<8xf32>
  // CHECK: %[[B:.*]] = mesh.collective_permute %[[S]] {{.*}}shard_dialect.stages = [@first
  // CHECK: stablehlo.multiply %[[B]], %[[Z]]
  %1 = stablehlo.multiply %0, %z : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
