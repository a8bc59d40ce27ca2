// All that propagation found is said in upstream's words, and found again.
//
// RUN: shard-opt %s --propagate --export-shard | filecheck %s
// RUN: shard-opt %s --propagate --export-shard --import > %t.back
// RUN: shard-opt %s --propagate --import | diff - %t.back

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @main
// CHECK-SAME: attributes {propagated
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // CHECK-DAG: shard.shard %arg0 to %{{.*}} {stands_for = "argument"}
  // CHECK-DAG: shard.shard %arg1 to %{{.*}} {stands_for = "argument"}
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  // CHECK: [[A:%.*]] = arith.addf
  // CHECK: shard.shard [[A]] to %{{.*}} {stands_for = "op"}
  %1 = arith.addf %0, %y : tensor<4x8xf32>
  // CHECK: {stands_for = "result"}
  return %1 : tensor<4x8xf32>
}

// Arguments of blocks, of loops as of branches between blocks.
//
// CHECK-LABEL: func.func @blocks
// CHECK: scf.for {{.*}} iter_args([[A:%.*]] =
// CHECK: shard.shard [[A]] to %{{.*}} {stands_for = "block"}
// CHECK: ^bb1([[B:%.*]]: tensor<4x8xf32>):
// CHECK: shard.shard [[B]] to %{{.*}} {stands_for = "block"}
// CHECK: ^bb2([[C:%.*]]: tensor<4x8xf32>):
// CHECK: shard.shard [[C]] to %{{.*}} {stands_for = "block"}
func.func @blocks(%x: tensor<4x8xf32>, %p: i1) -> tensor<4x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  %1 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %0) -> (tensor<4x8xf32>) {
    %2 = math.tanh %a : tensor<4x8xf32>
    scf.yield %2 : tensor<4x8xf32>
  }
  cf.cond_br %p, ^bb1(%1 : tensor<4x8xf32>), ^bb2(%0 : tensor<4x8xf32>)
^bb1(%b: tensor<4x8xf32>):
  %3 = math.exp %b : tensor<4x8xf32>
  cf.br ^bb2(%3 : tensor<4x8xf32>)
^bb2(%c: tensor<4x8xf32>):
  return %c : tensor<4x8xf32>
}
