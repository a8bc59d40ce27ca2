// A pass of MLIR between ours drops a result of a branch, and leaves the list of shardings as it was.
//
// RUN: shard-opt %s --propagate --canonicalize --materialize | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @main
// CHECK: scf.if {{.*}} -> (tensor<12x12xf32, #mesh.shard<@g, {{\[\[\]}}, [0]]>>)
func.func @main(%x: tensor<12x12xf32>, %choose: tensor<i1>) -> tensor<12x12xf32> {
  %chosen = tensor.extract %choose[] : tensor<i1>
  %0:2 = scf.if %chosen -> (tensor<12x12xf32>, tensor<12x12xf32>) {
    %1 = math.exp %x : tensor<12x12xf32>
    scf.yield %1, %1 : tensor<12x12xf32>, tensor<12x12xf32>
  } else {
    scf.yield %x, %x : tensor<12x12xf32>, tensor<12x12xf32>
  }
  %lies = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %2 = shard.shard %0#1 to %lies annotate_for_users : tensor<12x12xf32>
  %3 = arith.addf %2, %2 : tensor<12x12xf32>
  return %3 : tensor<12x12xf32>
}
