// All that propagation found is said in upstream's words, and found again.
//
// RUN: shard-opt %s --propagate --export-shard | filecheck %s
// RUN: shard-opt %s --propagate --export-shard --import > %t.back
// RUN: shard-opt %s --propagate --import | diff - %t.back

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @main
// CHECK-SAME: mesh.form = "propagated"
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // CHECK-DAG: shard.shard %arg0 to %{{.*}} {mesh.stands_for = "argument"}
  // CHECK-DAG: shard.shard %arg1 to %{{.*}} {mesh.stands_for = "argument"}
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  // CHECK: [[A:%.*]] = arith.addf
  // CHECK: shard.shard [[A]] to %{{.*}} {mesh.stands_for = "op"}
  %1 = arith.addf %0, %y : tensor<4x8xf32>
  // CHECK: {mesh.stands_for = "result"}
  return %1 : tensor<4x8xf32>
}
