// One of the ranks proves; no rank runs what it refutes.
//
// REQUIRES: mpi, torch
// RUN: %mpi-on-4-ranks %s --prove 2>&1 | filecheck %s
// RUN: %torch-on-4-ranks %s --prove 2>&1 | filecheck %s
// RUN: shard-opt %s --spmd -o %t.local
// RUN: sed s/tanh/sine/ %t.local > %t.wrong
// RUN: not %mpi-on-4-ranks %t.wrong --reference=%s --prove 2>&1 | filecheck %s --check-prefix=REFUTED
// RUN: not %torch-on-4-ranks %t.wrong --reference=%s --prove 2>&1 | filecheck %s --check-prefix=REFUTED

// CHECK: note: proven:
// CHECK-NOT: proven:
// CHECK: @main on 4 devices
// CHECK-NOT: proven:
// REFUTED: error: refuted: result 0:
// REFUTED-NOT: {{@main on|refuted}}

shard.grid @g(shape = 2x2)

func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.tanh %x : tensor<4x8xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
