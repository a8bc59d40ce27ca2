// `--report` tells, on standard error, what the module costs that the passes have made.
//
// RUN: shard-opt %s --spmd --report 2>&1 >/dev/null | filecheck %s
// RUN: shard-opt %s --spmd --report 2>/dev/null | filecheck %s --check-prefix=MODULE
// RUN: shard-opt %s --spmd --lower --report 2>&1 >/dev/null | filecheck %s --check-prefix=LOWERED

shard.grid @g(shape = 2)

// CHECK: @main on 2 devices
// CHECK: #1 {{ *}}all_reduce
// MODULE-NOT: bytes sent
// MODULE: shard.all_reduce
// LOWERED: @main on 2 devices
// LOWERED: #1 {{ *}}all_reduce
// LOWERED: 'linalg.matmul' op makes the value
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
