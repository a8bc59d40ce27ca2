// What a sum in place can't keep is left alone: another result of a region, rules and shardings of
// the ops that go, types that differ, functions that something else names.
//
// RUN: shard-opt %s --sum-in-place | filecheck %s
// RUN: shard-run %s --entry returns_update --check

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @returns_update
// CHECK: "stablehlo.scatter"(%cst
// CHECK: stablehlo.add %arg0
func.func @returns_update(%sum: tensor<6xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %at: tensor<2x1xi32>, %parts: tensor<2xf32>) -> tensor<6xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<6xf32>
  %0 = "stablehlo.scatter"(%zeros, %at, %parts) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) : (tensor<6xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<6xf32>
  %1 = stablehlo.add %sum, %0 : tensor<6xf32>
  return %1 : tensor<6xf32>
}

// CHECK-LABEL: func.func @rule
// CHECK: stablehlo.add {{.*}}mesh.sharding_rule
func.func @rule(%sum: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %part: tensor<1xf32>, %at: tensor<i32>) -> tensor<4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %sum {mesh.sharding_rule = "([i], [i]) -> ([i])"} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Attributes of the sum are kept.
// CHECK-LABEL: func.func @named
// CHECK: stablehlo.dynamic_update_slice %arg0, {{.*}} {name = "here"}
func.func @named(%sum: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %part: tensor<1xf32>, %at: tensor<i32>) -> tensor<4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %sum {name = "here"} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @sharded
// CHECK: stablehlo.dynamic_update_slice %{{.*}}mesh.shardings
// CHECK: stablehlo.transpose
func.func @sharded(%sum: tensor<6x4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %part: tensor<1x6xf32>, %at: tensor<i32>) -> tensor<6x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<4x6xf32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at, %at {mesh.shardings = [#mesh.shard<@g, [[], [0]]>]} : (tensor<4x6xf32>, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %2 = stablehlo.add %1, %sum : tensor<6x4xf32>
  return %2 : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @open_sum
// CHECK: stablehlo.add {{.*}} : (tensor<4xf32>, tensor<?xf32>) -> tensor<?xf32>
func.func @open_sum(%sum: tensor<?xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %part: tensor<1xf32>, %at: tensor<i32>) -> tensor<?xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %1 = "stablehlo.add"(%0, %sum) : (tensor<4xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}

// CHECK-LABEL: func.func @open_part
// CHECK-NOT: stablehlo.dynamic_slice
func.func @open_part(%sum: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %part: tensor<?xf32>, %at: tensor<i32>) -> tensor<4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at : (tensor<4xf32>, tensor<?xf32>, tensor<i32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %sum : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A part that a loop adds each time is put into zeros once, and distributed once.
// CHECK-LABEL: func.func @before_a_loop
// CHECK: %[[PUT:.*]] = stablehlo.dynamic_update_slice
// CHECK: scf.for
// CHECK: stablehlo.add %{{.*}}, %[[PUT]]
func.func @before_a_loop(%sum: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %part: tensor<1xf32>, %at: tensor<i32>) -> tensor<4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %1 = scf.for %i = %c0 to %c3 step %c1 iter_args(%s = %sum) -> (tensor<4xf32>) {
    %2 = stablehlo.add %s, %0 : tensor<4xf32>
    scf.yield %2 : tensor<4xf32>
  }
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @by_calls
// CHECK: stablehlo.composite "x.put" %{{.*}} {decomposition = @put}
// CHECK: call @sharded_put
func.func @by_calls(%sum: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %part: tensor<1xf32>, %at: tensor<i32>) -> tensor<4xf32> {
  %0 = call @put(%part, %at) : (tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %sum : tensor<4xf32>
  %2 = stablehlo.composite "x.put" %part, %at {decomposition = @put} : (tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %3 = stablehlo.add %1, %2 : tensor<4xf32>
  %4 = call @sharded_put(%part, %at) : (tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %5 = stablehlo.add %3, %4 : tensor<4xf32>
  return %5 : tensor<4xf32>
}

// CHECK: func.func private @put
func.func private @put(%part: tensor<1xf32>, %at: tensor<i32>) -> tensor<4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func private @sharded_put(%part: tensor<1xf32>, %at: tensor<i32>) -> (tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
