// MLIR's passes drop what a loop does not need, and keep its attributes as they were: what was said
// of the values that are left is inferred again.
//
// RUN: shard-opt %s --propagate --canonicalize --import  | shard-opt --propagate | filecheck %s --check-prefix=AGAIN
// RUN: shard-opt %s --propagate --canonicalize --materialize --partition --import  | filecheck %s --check-prefix=LOCAL
// RUN: shard-run %s --check | filecheck %s

// AGAIN: scf.yield
// AGAIN-NEXT: mesh.block_shardings =
// AGAIN-SAME{LITERAL}: [[unit, #mesh.shard<@g, [[0], []]>]]
// AGAIN-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@g, [[0], []]>]

// LOCAL: scf.for
// LOCAL-SAME: tensor<2x4xf32>

// CHECK: check passed

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4xf32>) -> tensor<4x4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<4x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r:3 = scf.for %i = %c0 to %c3 step %c1 iter_args(%c = %y, %a = %xs, %d = %xs)
      -> (tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
    %n = math.sin %a : tensor<4x4xf32>
    scf.yield %c, %n, %d : tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %r#1 : tensor<4x4xf32>
}
