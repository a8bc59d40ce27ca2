// A loop whose index is read is split as any other.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

#id = affine_map<(i, j) -> (i, j)>
shard.grid @g(shape = 2x2)

// CHECK-LABEL: func.func @main
// CHECK-NOT: mesh.all_gather
// CHECK: return
func.func @main(%x: tensor<4x8xi32>) -> tensor<4x8xi32> {
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xi32>
  %e = tensor.empty() : tensor<4x8xi32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<4x8xi32>) outs(%e : tensor<4x8xi32>) {
  ^bb0(%in: i32, %out: i32):
    %row = linalg.index 0 : index
    %row32 = arith.index_cast %row : index to i32
    %sum = arith.addi %in, %row32 : i32
    linalg.yield %sum : i32
  } -> tensor<4x8xi32>
  return %1 : tensor<4x8xi32>
}
// NUMBERS: check passed
