// A slice along several split dimensions is taken along one after the other, the smallest part first, so that what is
// sent along the others is of that part alone.
//
// RUN: shard-opt %s --propagate --shift-slices | filecheck %s
// RUN: shard-run %s --entry=both --check | filecheck %s --check-prefix=RUNS

shard.grid @g(shape = 2x2)

// RUNS: 288
// RUNS: check passed
// CHECK-LABEL: func.func @both(
// CHECK: %[[COLUMNS:.*]] = stablehlo.slice %arg0 [0:48, 32:36]
// CHECK-NEXT: stablehlo.slice %[[COLUMNS]] [24:48, 0:4]
func.func @both(%x: tensor<48x40xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>})
    -> (tensor<24x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}) {
  %0 = stablehlo.slice %x [24:48, 32:36] : (tensor<48x40xf32>) -> tensor<24x4xf32>
  return %0 : tensor<24x4xf32>
}

// Two slices of one tensor share what is sent of it.
// CHECK-LABEL: func.func @several(
// CHECK: stablehlo.slice %arg0 [24:48, 32:36]
// CHECK-NEXT: stablehlo.slice %arg0 [0:24, 32:36]
func.func @several(%x: tensor<48x40xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>})
    -> (tensor<24x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}) {
  %0 = stablehlo.slice %x [24:48, 32:36] : (tensor<48x40xf32>) -> tensor<24x4xf32>
  %1 = stablehlo.slice %x [0:24, 32:36] : (tensor<48x40xf32>) -> tensor<24x4xf32>
  %2 = stablehlo.add %0, %1 : tensor<24x4xf32>
  return %2 : tensor<24x4xf32>
}
