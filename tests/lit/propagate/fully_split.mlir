// A dimension whose shards have one element is not split further; an annotation stays as it is.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-opt %s --propagate=strategy=user-priority | filecheck %s --check-prefix=SHARDY
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

"mesh.cluster"() {sym_name = "g", rank = 3 : i64, dim_sizes = [2, 4, 2]} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-SAME{LITERAL}: %arg0: tensor<1x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1, 2]]>}
// CHECK: math.tanh {{.*}}#mesh.shard<@g, [{{\[\]}}, [1]]>
// SHARDY: math.tanh {{.*}}#mesh.shard<@g, [{{\[0\]}}, [1, 2]]>
// NUMBERS: check passed
func.func @main(%x: tensor<1x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1, 2]]>}) -> tensor<1x4xf32> {
  %0 = math.tanh %x : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
