// Sizes of a grid: of the axes named, or of all of them.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x?x4)

// CHECK-LABEL: func.func @sizes
func.func @sizes() {
  // CHECK: shard.grid_shape @g axes = [2, 1] : index, index
  %0:2 = shard.grid_shape @g axes = [2, 1] : index, index
  // CHECK: shard.grid_shape @g : index, index, index
  %1:3 = shard.grid_shape @g : index, index, index
  // CHECK: shard.grid_shape @g : index, index, index
  %2:3 = shard.grid_shape @g axes = [] : index, index, index
  return
}
