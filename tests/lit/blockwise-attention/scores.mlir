// What is larger than what it is made of is computed in blocks, in a loop that stores none of it.
//
// RUN: shard-opt %s --blockwise-attention=block-bytes=1024 | filecheck %s
// RUN: shard-opt %s --blockwise-attention=block-bytes=4096 | filecheck %s --check-prefix=WHOLE
// RUN: not shard-opt %s --blockwise-attention=block-bytes=-1 2>&1 | filecheck %s --check-prefix=SIZE

// SIZE: error: {{.*}}block-bytes is -1: expected a positive number

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @main(
// CHECK: %[[ALL:.*]] = scf.for %[[I:.*]] = %{{.*}} iter_args(%[[INTO:.*]] = %{{.*}}) -> (tensor<32x8xf32>) {
// CHECK: %[[BEGIN:.*]] = arith.muli %[[I]], %{{.*}}
// CHECK: %[[ROWS:.*]] = tensor.extract_slice %arg0[%[[BEGIN]], 0] [8, 8] [1, 1]
// CHECK: %[[S:.*]] = stablehlo.dot_general %[[ROWS]], %arg0, {{.*}} -> tensor<8x32xf32>
// CHECK: %[[E:.*]] = stablehlo.exponential %[[S]] : tensor<8x32xf32>
// CHECK: %[[O:.*]] = stablehlo.dot_general %[[E]], %arg0, {{.*}} -> tensor<8x8xf32>
// CHECK: tensor.insert_slice %[[O]] into %[[INTO]][%[[BEGIN]], 0] [8, 8] [1, 1]
// CHECK: return %[[ALL]]

// WHOLE: stablehlo.exponential {{.*}} : tensor<32x32xf32>
func.func @main(%x: tensor<32x8xf32> {mesh.argument = tensor<32x8xf32>})
    -> (tensor<32x8xf32> {mesh.result = tensor<32x8xf32>}) attributes {mesh.form = "local"} {
  %s = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x32xf32>
  %e = stablehlo.exponential %s : tensor<32x32xf32>
  %o = stablehlo.dot_general %e, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  return %o : tensor<32x8xf32>
}
