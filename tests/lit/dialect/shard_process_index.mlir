// Where a device is: along the axes named or all of them, or as one number.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 10x20x30)

// CHECK-LABEL: func.func @here
func.func @here() {
  // CHECK: shard.process_multi_index on @g axes = [0, 2] : index, index
  %0:2 = shard.process_multi_index on @g axes = [0, 2] : index, index
  // CHECK: shard.process_multi_index on @g : index, index, index
  %1:3 = shard.process_multi_index on @g : index, index, index
  // CHECK: shard.process_multi_index on @g : index, index, index
  %2:3 = shard.process_multi_index on @g axes = [] : index, index, index
  // CHECK: shard.process_linear_index on @g : index
  %3 = shard.process_linear_index on @g : index
  return
}
