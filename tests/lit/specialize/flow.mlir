// Around loops, out of branches, and through what computes sizes.
//
// RUN: shard-opt %s --specialize=shapes=4x8 | filecheck %s
// RUN: shard-run %s --shapes=4x8 --check | filecheck %s --check-prefix=RAN
// RUN: shard-run %s --shapes=7x8 --check | filecheck %s --check-prefix=RAN

// RAN: check passed

shard.grid @g(shape = 2)

// CHECK: -> (tensor<8x8xf32>, tensor<7x9xf32>, tensor<4x4x2xf32>, tensor<2xf32>)
// CHECK-NOT: tensor<?
func.func @main(%x: tensor<?x8xf32>, %n: tensor<index>) -> (tensor<?x8xf32>, tensor<?x?xf32>, tensor<?x4x2xf32>, tensor<?xf32>) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<?x8xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %xs) -> tensor<?x8xf32> {
    %b = arith.addf %a, %x : tensor<?x8xf32>
    %t = math.tanh %b : tensor<?x8xf32>
    scf.yield %t : tensor<?x8xf32>
  }
  %w:2 = scf.while (%a = %r, %i = %c0) : (tensor<?x8xf32>, index) -> (tensor<?x8xf32>, index) {
    %go = arith.cmpi slt, %i, %c3 : index
    scf.condition(%go) %a, %i : tensor<?x8xf32>, index
  } do {
  ^bb0(%a: tensor<?x8xf32>, %i: index):
    %b = arith.mulf %a, %x : tensor<?x8xf32>
    %j = arith.addi %i, %c1 : index
    scf.yield %b, %j : tensor<?x8xf32>, index
  }
  %nn = tensor.extract %n[] : tensor<index>
  %go = arith.cmpi slt, %nn, %c3 : index
  %q = scf.if %go -> tensor<?x8xf32> {
    %e = math.exp %w#0 : tensor<?x8xf32>
    scf.yield %e : tensor<?x8xf32>
  } else {
    scf.yield %x : tensor<?x8xf32>
  }
  %cat = tensor.concat dim(0) %q, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %zero = arith.constant 0.0 : f32
  %d = tensor.dim %cat, %c0 : tensor<?x8xf32>
  %third = arith.divsi %d, %c3 : index
  %p = tensor.pad %q low[1, %c1] high[%third, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<?x8xf32> to tensor<?x?xf32>
  %dx = tensor.dim %x, %c0 : tensor<?x8xf32>
  %ex = tensor.expand_shape %x [[0], [1, 2]] output_shape [%dx, 4, 2] : tensor<?x8xf32> into tensor<?x4x2xf32>
  %sl = tensor.extract_slice %cat[1, 2] [%third, 1] [1, 1] : tensor<?x8xf32> to tensor<?xf32>
  return %cat, %p, %ex, %sl : tensor<?x8xf32>, tensor<?x?xf32>, tensor<?x4x2xf32>, tensor<?xf32>
}
