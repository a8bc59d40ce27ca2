// A switch becomes an `if` for each of its cases. Upstream's bufferization would overlook that a
// branch of a switch writes to a buffer that is written again while its result is to be read still.
//
// RUN: shard-opt %s --spmd --lower | filecheck %s --check-prefix=IF
// RUN: shard-run %s --check | filecheck %s

// IF-LABEL: func.func @main
// IF-NOT: scf.index_switch
// IF: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
// IF: scf.if %[[FIRST]]
// IF: else
// IF: %[[SECOND:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
// IF: scf.if %[[SECOND]]
// IF-NOT: scf.index_switch

// CHECK: check passed

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>, %which: tensor<index>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %case = tensor.extract %which[] : tensor<index>
  %0 = scf.index_switch %case -> tensor<4xf32>
  case 0 {
    %a = linalg.exp ins(%xs : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  }
  case 3 {
    %a = linalg.abs ins(%xs : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  }
  default {
    scf.yield %xs : tensor<4xf32>
  }
  %1 = linalg.add ins(%xs, %xs : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
    -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
