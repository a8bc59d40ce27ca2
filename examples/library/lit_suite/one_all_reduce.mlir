// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL
// RUN: shard-run %s --check

// CHECK: stablehlo.tanh {{.*}}[{"x"}, {}]
// LOCAL-LABEL: func.func @main
// LOCAL: stablehlo.tanh
// LOCAL: shard.all_reduce
// LOCAL-NOT: shard.all_
sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<64x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %w: tensor<64x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.tanh %x : tensor<64x4xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [0] x [0]
    : (tensor<64x4xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
