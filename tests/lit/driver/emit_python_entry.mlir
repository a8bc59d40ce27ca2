// A private function is none to start, also if it is called @main.
//
// RUN: shard-opt %s --spmd --emit-python=mpi4py | filecheck %s
// CHECK: def program(x, y):
// CHECK-NEXT: main_2(x)
shard.grid @g(shape = 2)
func.func @start(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = arith.addf %0, %y : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @main(%y: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
  %z = math.tanh %y : tensor<4xf32>
  return %z : tensor<4xf32>
}
