// Four ranks, started by a launcher, do what four devices in one process do; one that fails ends all.
//
// REQUIRES: mpi, torch
// RUN: %mpi-on-4-ranks %s --check | filecheck %s
// RUN: %torch-on-4-ranks %s --check | filecheck %s
// RUN: not %mpi-on-4-ranks %s --entry=missing 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: not %torch-on-4-ranks %s --entry=missing 2>&1 | filecheck %s --check-prefix=ERROR

// CHECK: @main on 4 devices
// CHECK: all_reduce
// CHECK: check passed
// CHECK-NOT: check passed
// ERROR: error: {{.*}}missing
// ERROR-NOT: error: {{.*}}missing

shard.grid @g(shape = 2x2)

func.func @main(%x: tensor<4x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %0 = linalg.reduce {arith.addf} ins(%x : tensor<4x8xf32, #mesh.shard<@g, [[0], [1]]>>)
                                  outs(%zero : tensor<4xf32>) dimensions = [1]
  return %0 : tensor<4xf32>
}
