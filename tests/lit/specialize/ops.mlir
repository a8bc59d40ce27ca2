// Ops that MLIR's canonicalization leaves as they are, and blocks that are entered from several places.
//
// RUN: shard-opt %s --specialize=shapes=4x8 | filecheck %s
// RUN: shard-run %s --shapes=4x8 --check | filecheck %s --check-prefix=RAN

// RAN: check passed

shard.grid @g(shape = 2)
// CHECK: func.func @main{{.*}} -> (tensor<2x2x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-NOT: tensor<?
func.func @main(%x: tensor<?x8xf32>, %n: tensor<i1>) -> (tensor<?x?x?xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %d = tensor.dim %x, %c0 : tensor<?x8xf32>
  %half = arith.divui %d, %c2 : index
  %shape = tensor.from_elements %half, %c2, %c8 : tensor<3xindex>
  %r = tensor.reshape %x(%shape) : (tensor<?x8xf32>, tensor<3xindex>) -> tensor<?x?x?xf32>
  %first = tensor.extract %x[%c0, %c0] : tensor<?x8xf32>
  // CHECK: tensor.splat %{{.*}} : tensor<4x8xf32>
  %s = tensor.splat %first[%d] : tensor<?x8xf32>
  %go = tensor.extract %n[] : tensor<i1>
  %e = math.exp %x : tensor<?x8xf32>
  cf.cond_br %go, ^two(%e : tensor<?x8xf32>), ^one
^one:
  %f = arith.addf %x, %s : tensor<?x8xf32>
  cf.br ^two(%f : tensor<?x8xf32>)
^two(%y: tensor<?x8xf32>):
  %z = stablehlo.add %y, %y : tensor<?x8xf32>
  return %r, %s, %z : tensor<?x?x?xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}
