// A loop that yields one value twice has two results, of which one may be written over while the other is used.
//
// RUN: shard-run %s --check | filecheck %s
// CHECK: check passed

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %begin = arith.constant 0 : index
  %step = arith.constant 1 : index
  %end = arith.constant 3 : index
  %v = arith.addf %x, %x : tensor<4x4xf32>
  %0:2 = scf.for %i = %begin to %end step %step iter_args(%a = %v, %b = %v) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %n = arith.negf %v : tensor<4x4xf32>
    scf.yield %n, %n : tensor<4x4xf32>, tensor<4x4xf32>
  }
  %1 = arith.addf %0#0, %0#0 : tensor<4x4xf32>
  return %0#1, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}
