// A sharding group is one for each part of the devices: @small has no axis "x" to split along.
//
// RUN: shard-opt %s --propagate --import | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=RAN

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2, "z"=2]>, sym_name = "m"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<["s"=2]>, sym_name = "small"}> : () -> ()

// CHECK: stablehlo.sine {{.*}}[#mesh.shard<@m, {{\[\[}}0], [1]]>]
// CHECK: stablehlo.tanh {{.*}}[#mesh.shard<@m, {{\[\[}}2], []]>]
// CHECK: mesh.sharding_group {{.*}}group_id = 4
// CHECK: mesh.sharding_group {{.*}}group_id = 5
// CHECK: mesh.sharding_group {{.*}}group_id = 4
// RAN: check passed
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>},
                %y: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@small, [{"s"}, {}]>})
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.sine %x : tensor<8x8xf32>
  %1 = stablehlo.tanh %y : tensor<8x8xf32>
  %2 = stablehlo.cosine %x : tensor<8x8xf32>
  "sdy.sharding_group"(%0) <{group_id = 4 : i64}> : (tensor<8x8xf32>) -> ()
  "sdy.sharding_group"(%1) <{group_id = 4 : i64}> : (tensor<8x8xf32>) -> ()
  "sdy.sharding_group"(%2) <{group_id = 4 : i64}> : (tensor<8x8xf32>) -> ()
  return %0, %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
