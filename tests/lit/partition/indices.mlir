// Indices of the whole tensor become those of a shard, and the other way round.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-opt %s --spmd | shard-opt - --canonicalize --cse --lower -o %t

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @counted
// CHECK: %[[HERE:.*]] = stablehlo.iota dim = 0 : tensor<3xi64>
// CHECK: stablehlo.add %[[HERE]]
// CHECK: stablehlo.convert {{.*}} -> tensor<3xf32>
func.func @counted() -> (tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %0 = stablehlo.iota dim = 0 : tensor<5xf32>
  return %0 : tensor<5xf32>
}

// CHECK-LABEL: func.func @read_in_a_body
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: arith.addi %[[I]], %{{.*}} : index
func.func @read_in_a_body(%x: tensor<6xindex> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<6xindex> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      outs(%x : tensor<6xindex>) {
  ^bb0(%out: index):
    %i = linalg.index 0 : index
    linalg.yield %i : index
  } -> tensor<6xindex>
  return %0 : tensor<6xindex>
}

// A cache is written where it lies.
// CHECK-LABEL: func.func @written
// CHECK: %[[NEW:.*]] = stablehlo.select {{.*}} tensor<2xf32>
// CHECK: stablehlo.dynamic_update_slice %arg0, %[[NEW]], {{.*}} -> tensor<4xf32>
// CHECK-NEXT: return
func.func @written(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %y: tensor<2xf32>, %at: tensor<i32>)
    -> (tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %0 = stablehlo.dynamic_update_slice %x, %y, %at : (tensor<8xf32>, tensor<2xf32>, tensor<i32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// What is read is in one shard, or in two.
// CHECK-LABEL: func.func @read
// CHECK: %[[PART:.*]] = stablehlo.dynamic_slice {{.*}} -> tensor<2xf32>
// CHECK: %[[MOVED:.*]] = stablehlo.dynamic_slice {{.*}}6xf32>{{.*}} -> tensor<2xf32>
// CHECK: shard.all_reduce %[[MOVED]]
func.func @read(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %at: tensor<i32>)
    -> (tensor<2xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {
  %0 = stablehlo.dynamic_slice %x, %at, sizes = [2] : (tensor<8xf32>, tensor<i32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
