// Two bundles of permutations need what one op computes: it is done before the first of them.
//
// RUN: shard-run %s --check | filecheck %s

// CHECK: check passed
shard.grid @g(shape = 3)
  func.func @main(%a1: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
%v5 = "stablehlo.atan2"(%a1, %a1) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>)
%l6 = shard.sharding @g split_axes = [[]] : !shard.sharding
%s6 = shard.shard %v5 to %l6 : tensor<8xf32>
%k7 = arith.constant 0 : index
%k8 = arith.constant 0 : index
%k9 = arith.constant 1 : index
%v26 = scf.for %i25 = %k7 to %k8 step %k9 iter_args(%b10 = %a1) -> (tensor<8xf32>) {
%v11 = math.fma %b10, %b10, %v5 : tensor<8xf32>
%k12 = arith.constant 0 : index
%k13 = arith.constant 1 : index
%k14 = arith.constant 1 : index
%v23:2 = scf.for %i22 = %k12 to %k13 step %k14 iter_args(%b15 = %a1, %b16 = %a1) -> (tensor<8xf32>, tensor<8xf32>) {
%v17 = linalg.mul ins(%b15, %b16 : tensor<8xf32>, tensor<8xf32>) outs(%v11 : tensor<8xf32>) -> tensor<8xf32>
%s18 = "mesh.annotate"(%v17) {sharding = #mesh.shard<@g, [[0], {offsets = [[0, 2, 8, 8]]}]>, required = true, as_result = true} : (tensor<8xf32>) -> tensor<8xf32>
%n19_c0 = stablehlo.constant dense<-1.0> : tensor<f32>
%n19_c2 = stablehlo.constant dense<2.0> : tensor<f32>
%v19 = "stablehlo.clamp"(%n19_c0, %v17, %n19_c2) : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>)
%v20 = tosa.ceil %a1 : (tensor<8xf32>) -> tensor<8xf32>
%s21 = "mesh.annotate"(%v20) {sharding = #mesh.shard<@g, [[0]]>, required = true, as_result = false} : (tensor<8xf32>) -> tensor<8xf32>
scf.yield %s21, %s21 : tensor<8xf32>, tensor<8xf32>
}
%s24 = "mesh.annotate"(%v23#1) {sharding = #mesh.shard<@g, [[]]>, required = true, as_result = true} : (tensor<8xf32>) -> tensor<8xf32>
scf.yield %s24 : tensor<8xf32>
}
  return %s6, %v26 : tensor<8xf32>, tensor<8xf32>
}
