// Canonicalization may leave casts where an op infers the type of its result: what it casts lies alike.
//
// RUN: shard-opt %s --propagate --materialize --canonicalize | filecheck %s --check-prefix=CASTS
// RUN: shard-opt %s --propagate --materialize --canonicalize --partition | filecheck %s
// RUN: shard-opt %s --propagate --materialize --canonicalize --optimize-collectives --partition | filecheck %s

// CASTS: tensor.cast
// CHECK-NOT: tensor.cast
// CHECK: tensor.concat dim(0) %{{.*}}, %{{.*}} : (tensor<8x2xf32>, tensor<4x2xf32>) -> tensor<12x2xf32>
// CHECK-NOT: tensor.cast
// CHECK: return
shard.grid @g(shape = 3)
func.func @main(%a: tensor<8x6xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}, %b: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> (tensor<12x6xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) {
  %c = tensor.concat dim(0) %a, %b : (tensor<8x6xf32>, tensor<4x6xf32>) -> tensor<12x6xf32>
  return %c : tensor<12x6xf32>
}
