// Grids of known and unknown sizes, of any rank, and of a visibility, in front or as an attribute.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

// CHECK: shard.grid @known(shape = 4x8x12)
shard.grid @known(shape = 4x8x12)
// CHECK: shard.grid @last(shape = 4x?)
shard.grid @last(shape = 4x?)
// CHECK: shard.grid @first(shape = ?x4)
shard.grid @first(shape = ?x4)
// CHECK: shard.grid @unknown(shape = ?)
shard.grid @unknown(shape = ?)
// CHECK: shard.grid @inside(shape = 1) {sym_visibility = "private"}
shard.grid "private" @inside(shape = 1)
// CHECK: shard.grid @too(shape = 2) {sym_visibility = "private"}
shard.grid @too(shape = 2) {sym_visibility = "private"}

// CHECK: shard.grid @inner(shape = 2)
// CHECK: shard.all_reduce %arg0 on @inner grid_axes = [0]
module @nested {
  shard.grid @inner(shape = 2)
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = shard.all_reduce %x on @inner grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
