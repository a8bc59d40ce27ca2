// Collectives begin when their operand is there, and are waited for where they are needed.
//
// RUN: shard-opt %s --overlap-collectives | filecheck %s
// RUN: shard-opt %s --overlap-collectives --overlap-collectives --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @around
// CHECK-NEXT: %[[SUM:.*]] = "mesh.start"(%arg0) {collective = {{.*}}name = "shard.all_reduce"
// CHECK-NEXT: %[[EXP:.*]] = math.exp %arg1
// CHECK-NEXT: %[[DONE:.*]] = "mesh.done"(%[[SUM]])
// CHECK-NEXT: arith.addf %[[DONE]], %[[EXP]]
func.func @around(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  %0 = math.exp %y : tensor<4xf32>
  %1 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %2 = arith.addf %1, %0 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// One after the other; the second begins when the first is done.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: "mesh.start"(%arg0) {collective = {{.*}}name = "shard.reduce_scatter"
// CHECK-NEXT: math.exp
// CHECK-NEXT: "mesh.done"
// CHECK-NEXT: "mesh.start"({{.*}}) {collective = {{.*}}name = "shard.all_gather"
// CHECK-NEXT: math.log1p
// CHECK-NEXT: "mesh.done"
func.func @chain(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  %0 = math.exp %y : tensor<4xf32>
  %1 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_axis = 0 : tensor<4xf32> -> tensor<2xf32>
  %2 = shard.all_gather %1 on @g grid_axes = [0] gather_axis = 0 : tensor<2xf32> -> tensor<4xf32>
  %3 = math.log1p %0 : tensor<4xf32>
  %4 = arith.addf %2, %3 : tensor<4xf32>
  return %4 : tensor<4xf32>
}

// Nothing to do meanwhile.
// CHECK-LABEL: func.func @alone
// CHECK-NEXT: math.exp
// CHECK-NEXT: shard.all_reduce
// CHECK-NEXT: arith.addf
func.func @alone(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  %0 = math.exp %x : tensor<4xf32>
  %1 = shard.all_reduce %0 on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %2 = arith.addf %1, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// What nothing is computed beside does not wait for a later one to be through on the network.
// CHECK-LABEL: func.func @first_come
// CHECK-NEXT: shard.all_gather %arg0
// CHECK-NEXT: "mesh.start"(%arg1)
// CHECK-NEXT: math.exp
// CHECK-NEXT: "mesh.done"
func.func @first_come(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<8xf32> attributes {mesh.form = "local"} {
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>
  %1 = math.exp %0 : tensor<8xf32>
  %2 = shard.all_gather %y on @g grid_axes = [0] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>
  %3 = arith.addf %1, %2 : tensor<8xf32>
  return %3 : tensor<8xf32>
}
