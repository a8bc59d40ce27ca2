// What an `scf.while` passes on to its next round is copied, unless it was written in this one, or
// over what came around in the same place: upstream's bufferization would let the next round write
// to it, were it the caller's.
//
// RUN: shard-opt %s --spmd --lower | filecheck %s --check-prefix=COPY
// RUN: shard-run %s --check | filecheck %s

// COPY: scf.while
// COPY: linalg.matmul {{.*}} outs(%[[CARRIED:.*]] : memref<4x4xf32>)
// COPY: } do {
// COPY: %[[COPY:.*]] = memref.alloc
// COPY: memref.copy %arg0, %[[COPY]]
// COPY: scf.yield %{{.*}}, %[[COPY]]

// CHECK: check passed

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s = shard.sharding @g split_axes = [[], []] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<4x4xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %r:2 = scf.while (%i = %c0, %a = %xs) : (i32, tensor<4x4xf32>) -> (i32, tensor<4x4xf32>) {
    %m = linalg.matmul ins(%w, %w : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
    %p = arith.cmpi slt, %i, %c2 : i32
    scf.condition(%p) %i, %m : i32, tensor<4x4xf32>
  } do {
  ^bb0(%i: i32, %m: tensor<4x4xf32>):
    %n = arith.addi %i, %c1 : i32
    scf.yield %n, %xs : i32, tensor<4x4xf32>
  }
  return %r#1 : tensor<4x4xf32>
}
