// Members of a sharding group whose annotations contradict each other keep their own, and are named. Other annotations
// are joined.
//
// RUN: shard-opt %s --propagate --verify-diagnostics=only-expected | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @contradictory
// CHECK-SAME{LITERAL}: %arg0: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}
// CHECK-SAME{LITERAL}: %arg1: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[1], [0]]>}
// CHECK-SAME{LITERAL}: %arg2: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}
func.func @contradictory(%x: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>},
                         %y: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[1], [0]]>},
                         %z: tensor<16x8xf32>) {
  // expected-note@+1 {{a member with the sharding [[0], [1]]}}
  "mesh.sharding_group"(%x) {group_id = 3 : i64} : (tensor<16x8xf32>) -> ()
  // expected-warning@+1 {{sharding group 3 has members with the shardings [[0], [1]] and [[1], [0]], which contradict each other: this member keeps its own, outside of the group}}
  "mesh.sharding_group"(%y) {group_id = 3 : i64} : (tensor<16x8xf32>) -> ()
  "mesh.sharding_group"(%z) {group_id = 3 : i64} : (tensor<16x8xf32>) -> ()
  return
}

// A closed annotation is not changed with an open one in its group.
// CHECK-LABEL: func.func @closed
// CHECK-SAME{LITERAL}: %arg0: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1], []]>}
// CHECK-SAME{LITERAL}: %arg1: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[1], []]>}
func.func @closed(%x: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = [0]}]>},
                  %y: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[1], []]>},
                  %z: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1], []]>}) -> tensor<16x8xf32> {
  "mesh.sharding_group"(%x) {group_id = 0 : i64} : (tensor<16x8xf32>) -> () // expected-note {{[[0], [], {open = [0]}]}}
  // expected-warning@+1 {{shardings [[0], [], {open = [0]}] and [[1], []]}}
  "mesh.sharding_group"(%y) {group_id = 0 : i64} : (tensor<16x8xf32>) -> ()
  %0 = arith.addf %x, %z : tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// CHECK-LABEL: func.func @joined
// CHECK-SAME{LITERAL}: %arg0: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}
// CHECK-SAME{LITERAL}: %arg1: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}
func.func @joined(%x: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = [1]}]>},
                  %y: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1], {open = [0]}]>}) {
  "mesh.sharding_group"(%x) {group_id = 0 : i64} : (tensor<16x8xf32>) -> ()
  "mesh.sharding_group"(%y) {group_id = 0 : i64} : (tensor<16x8xf32>) -> ()
  return
}
