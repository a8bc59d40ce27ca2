// Shards that begin at offsets are as large as the largest, and are put together without gaps.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-opt %s --spmd | shard-opt - --canonicalize --cse --lower -o %t

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @gathered
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>
// CHECK: %[[ALL:.*]] = shard.all_gather %[[X]] {{.*}} -> tensor<8xf32>
// CHECK: tensor.extract_slice %[[ALL]][0] [1] [1]
// CHECK: tensor.extract_slice %[[ALL]][4] [4] [1]
// CHECK: %[[WHOLE:.*]] = tensor.insert_slice {{.*}} into tensor<5xf32>
// CHECK: return %[[WHOLE]]
func.func @gathered(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0], {offsets = [[0, 1, 5]]}]>})
    -> (tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {
  return %x : tensor<5xf32>
}

// CHECK-LABEL: func.func @cut
// CHECK: arith.constant dense<[0, 1]> : tensor<2xi64>
// CHECK: %[[BEGIN:.*]] = arith.index_cast
// CHECK: tensor.extract_slice %{{.*}}[%[[BEGIN]]] [4] [1] : tensor<9xf32> to tensor<4xf32>
func.func @cut(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[]]>})
    -> (tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0], {offsets = [[0, 1, 5]]}]>}) {
  return %x : tensor<5xf32>
}

// Where they say what is so anyway they are left out.
// CHECK-LABEL: func.func @as_ever
// CHECK-SAME{LITERAL}: mesh.argument = tensor<5xf32, #mesh.shard<@g, [[0]]>>
func.func @as_ever(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0], {offsets = [[0, 3, 5]]}]>}) -> tensor<5xf32> {
  return %x : tensor<5xf32>
}

// What changes devices is sent, here two elements to the device before, which has one of its own.
// CHECK-LABEL: func.func @changed
// CHECK-SAME: (%arg0: tensor<4xf32>
// CHECK: %[[SENT:.*]] = tensor.extract_slice %arg0[0] [2] [1] : tensor<4xf32> to tensor<2xf32>
// CHECK: %[[GOT:.*]] = "mesh.collective_permute"(%[[SENT]]) {cluster = @g, mesh_axis = [0], permutation = [-1, 0]}
// CHECK: tensor.insert_slice %[[GOT]] into %{{.*}} [2] [1]
func.func @changed(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0], {offsets = [[0, 1, 5]]}]>})
    -> (tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0], {offsets = [[0, 3, 5]]}]>}) {
  return %x : tensor<5xf32>
}
