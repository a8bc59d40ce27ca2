// The devices next to one along an axis.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 10x20x30)

// CHECK-LABEL: func.func @two_names
func.func @two_names(%i: index, %j: index, %k: index) -> (index, index) {
  // CHECK: %[[DOWN:.*]], %[[UP:.*]] = shard.neighbors_linear_indices on @g[%arg0, %arg1, %arg2] split_axes = [1] : index, index
  %down, %up = shard.neighbors_linear_indices on @g[%i, %j, %k] split_axes = [1] : index, index
  // CHECK: return %[[DOWN]], %[[UP]]
  return %down, %up : index, index
}

// CHECK-LABEL: func.func @one_name
func.func @one_name(%i: index, %j: index, %k: index) -> (index, index) {
  // CHECK: %[[DOWN:.*]], %[[UP:.*]] = shard.neighbors_linear_indices
  %both:2 = shard.neighbors_linear_indices on @g[%i, %j, %k] split_axes = [2, 0] : index, index
  // CHECK: return %[[DOWN]], %[[UP]]
  return %both#0, %both#1 : index, index
}
