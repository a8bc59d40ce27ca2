// What stands in front of a loop is done once: it does not move into the loop.
//
// RUN: shard-opt %s --optimize-collectives | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @in_front
// CHECK: mesh.all_gather %arg0
// CHECK: scf.for
// CHECK-NEXT: arith.addf
// CHECK-NEXT: scf.yield
func.func @in_front(%x: tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>, %y: tensor<4x4xf32>, %n: index) -> tensor<4x4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32>
  %1 = scf.for %i = %zero to %n step %one iter_args(%sum = %y) -> (tensor<4x4xf32>) {
    %2 = arith.addf %sum, %0 : tensor<4x4xf32>
    scf.yield %2 : tensor<4x4xf32>
  }
  return %1 : tensor<4x4xf32>
}

// Inside, what is done each time is made cheaper.
// CHECK-LABEL: func.func @inside
// CHECK: scf.for
// CHECK-NEXT: arith.addf
// CHECK-NEXT: mesh.all_reduce
// CHECK-NEXT: scf.yield
func.func @inside(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>, %y: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>, %z: tensor<4x4xf32>, %n: index) -> tensor<4x4xf32> attributes {mesh.form = "distributed"} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %1 = scf.for %i = %zero to %n step %one iter_args(%last = %z) -> (tensor<4x4xf32>) {
    %2 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
    %3 = "mesh.all_reduce"(%y) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
    %4 = arith.addf %2, %3 : tensor<4x4xf32>
    scf.yield %4 : tensor<4x4xf32>
  }
  return %1 : tensor<4x4xf32>
}
