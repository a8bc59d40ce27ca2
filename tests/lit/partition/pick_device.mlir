// What one device does of the program of all: its branches, its shards, and all collectives that it takes
// part in, though it needs not what they give.
//
// RUN: shard-opt %s --pick-device | filecheck %s --check-prefix=FIRST
// RUN: shard-opt %s --pick-device=rank=3 | filecheck %s --check-prefix=LAST
// RUN: shard-opt %s --pick-device --lower | filecheck %s --check-prefix=LOWERED
// RUN: not shard-opt %s --pick-device=rank=4 2>&1 | filecheck %s --check-prefix=NONE

// NONE: error: --pick-device=rank=4: grid @g(2x2) has no such device: expected 0 to 3
shard.grid @g(shape = 2x2)

// FIRST: func.func @main
// FIRST-SAME: mesh.device = 0 : index
// FIRST-NOT: scf.if
// FIRST: tensor.extract_slice %arg0[0] [2] [1]
// FIRST: shard.all_reduce
// FIRST-NEXT: arith.addf
// FIRST-NEXT: return

// LAST: func.func @main
// LAST-SAME: mesh.device = 3 : index
// LAST-NOT: scf.if
// LAST: tensor.extract_slice %arg0[6] [2] [1]
// LAST: %[[SUM:.*]] = shard.all_reduce
// LAST: arith.mulf %{{.*}}, %[[SUM]]

// LOWERED: call @mesh_all_reduce_0
func.func @main(%x: tensor<8xf32>) -> tensor<2xf32> attributes {mesh.form = "local"} {
  %rank = shard.process_linear_index on @g : index
  %mine = shard.all_slice %x on @g grid_axes = [0, 1] slice_axis = 0 : tensor<8xf32> -> tensor<2xf32>
  %sum = shard.all_reduce %mine on @g grid_axes = [0] : tensor<2xf32> -> tensor<2xf32>
  %one = arith.constant 1 : index
  %is_first = arith.cmpi ult, %rank, %one : index
  %r = scf.if %is_first -> tensor<2xf32> {
    %0 = arith.addf %mine, %mine : tensor<2xf32>
    scf.yield %0 : tensor<2xf32>
  } else {
    %1 = arith.mulf %mine, %sum : tensor<2xf32>
    scf.yield %1 : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}
