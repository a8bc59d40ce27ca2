// Annotations of one value agree, or leave open what another decides.
//
// RUN: shard-opt %s --import | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()

// CHECK-LABEL: func.func @said_twice
// CHECK-COUNT-2: mesh.annotate
func.func @said_twice(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  %0 = "mesh.annotate"(%x) {sharding = [[0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "mesh.annotate"(%x) {sharding = [[0], []]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @one_leaves_open_what_the_other_says
func.func @one_leaves_open_what_the_other_says(
    %x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = [1]}]>})
    -> tensor<4x8xf32> {
  // CHECK{LITERAL}: sharding = #mesh.shard<@g, [[0], [1]]>
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @users_see_it_in_two_ways
func.func @users_see_it_in_two_ways(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  // CHECK-COUNT-3: mesh.annotate
  %0 = "mesh.annotate"(%x) {sharding = [[0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "mesh.annotate"(%0) {sharding = [[1]], as_result = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "mesh.annotate"(%0) {sharding = [[], [0]], as_result = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @a_hint_may_say_something_else
func.func @a_hint_may_say_something_else(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mesh_cluster = @g} {
  // CHECK{LITERAL}: required = true, sharding = #mesh.shard<[[0], []]>
  %0 = "mesh.annotate"(%x) {sharding = [[0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK{LITERAL}: required = false, sharding = #mesh.shard<[[1], []]>
  %1 = "mesh.annotate"(%0) {sharding = [[1]], required = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
