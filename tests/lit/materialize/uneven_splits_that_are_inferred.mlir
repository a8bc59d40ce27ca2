// Where nothing uneven is said, an inferred split is taken as far as it divides, and nothing is padded.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

shard.grid @g(shape = 4)

// CHECK-LABEL: func.func @main
// CHECK: mesh.all_gather %arg0
// CHECK: math.absf {{.*}} : tensor<6xf32, #mesh.shard<@g_2x2, {{\[\[}}0]]>>
func.func @main(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<6xf32> {
  %0 = tensor.extract_slice %x[1] [6] [1] : tensor<8xf32> to tensor<6xf32>
  %1 = math.absf %0 : tensor<6xf32>
  return %1 : tensor<6xf32>
}
// NUMBERS: check passed

// Where something is, results that nobody annotated stay where they are.
//
// CHECK-LABEL: func.func @stays
// CHECK-NOT: mesh.all_gather
// CHECK: return {{.*}} : tensor<6xf32, #mesh.shard<@g, {{\[\[}}0]]>>
func.func @stays(%x: tensor<6xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<6xf32> {
  %0 = math.exp %x : tensor<6xf32>
  return %0 : tensor<6xf32>
}
