// Zero points that are arguments are subtracted; those that are constants are left to upstream.
//
// RUN: shard-opt %s --spmd --lower=target=stablehlo | filecheck %s
// RUN: shard-opt %s --spmd --emit-python=mpi4py > %t
// RUN: shard-run %s --check | filecheck %s --check-prefix=CHECKED

// CHECK: func.func @main(%arg0: tensor<2x2x8xi8>
// CHECK: stablehlo.subtract
// CHECK: stablehlo.subtract
// CHECK: stablehlo.dot_general
// CHECKED: check passed

shard.grid @g(shape = 2)

func.func @main(%x: tensor<2x4x8xi8>, %w: tensor<2x8x6xi8>, %p: tensor<1xi8>, %q: tensor<1xi8>) -> tensor<2x4x6xi32> {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<2x4x8xi8>
  %1 = tosa.matmul %0, %w, %p, %q : (tensor<2x4x8xi8>, tensor<2x8x6xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x4x6xi32>
  return %1 : tensor<2x4x6xi32>
}
