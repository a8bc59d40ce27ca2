// A reshape splits an axis of the grid; from materialization on the grid is seen more finely.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

// CHECK: stablehlo.reshape {{.*}}[#mesh.shard<@g, [{{\[}}"0:(1)4"], ["0:(4)2"]]>]
// LOCAL: shard.grid @g_4x2(shape = 4x2)
// LOCAL: stablehlo.reshape {{.*}} : (tensor<2xf32>) -> tensor<1x2xf32>
// LOCAL: stablehlo.add {{.*}} : tensor<1x2xf32>
// NUMBERS: no communication
// NUMBERS: check passed
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [8]} : () -> ()
func.func @main(%x: tensor<16xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.reshape %x : (tensor<16xf32>) -> tensor<4x4xf32>
  %1 = stablehlo.add %0, %y : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
