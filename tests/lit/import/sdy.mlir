// Shardy's annotations become ours: attributes, constraints with uses and without, and the rest.
//
// RUN: shard-opt %s --import | filecheck %s
// RUN: shard-opt %s --import | shard-opt --import | filecheck %s

// CHECK-NOT: sdy.
// CHECK: mesh.cluster @m(rank = 2, dim_sizes = [2, 8]) {axis_names = ["x", "y"]}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=8]>, sym_name = "m"}> : () -> ()
// CHECK: mesh.cluster @one(rank = 0) {device_ids = [5]}
"sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[5]>, sym_name = "one"}> : () -> ()

// CHECK-LABEL: func.func @attributes
// CHECK-SAME{LITERAL}: (%arg0: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@m, [[0], ["1:(1)2"], {open = [1], priority = [unit, 1], replicated = ["1:(4)2"]}]>}
// CHECK-SAME: %arg1: f32,
// CHECK-SAME{LITERAL}: %arg2: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@one, [[], []]>}
// CHECK-SAME{LITERAL}: -> (tensor<8x8xf32> {mesh.sharding = #mesh.shard<@m, [[], [], [0]]>})
func.func @attributes(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y":(1)2, ?}p1], replicated={"y":(4)2}>},
                      %s: f32 {sdy.sharding = #sdy.sharding<@m, []>},
                      %o: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@one, []>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], unreduced={"x"}>}) {
  // CHECK{LITERAL}: math.sincos %arg0 {mesh.shardings = [unit, #mesh.shard<@m, [[0], []]>]}
  %a, %b = math.sincos %x {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}, {?}]>, <@m, [{"x"}, {}]>]>} : tensor<8x8xf32>
  // CHECK: math.tanh %{{.*}} {mesh.sharding_rule = "([i, j])->([i, j]) {i=8, j=8}"}
  %0 = math.tanh %a {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @ops
func.func @ops(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %s: f32) -> (tensor<8x8xf32>, tensor<8x8xf32>, f32) {
  // CHECK{LITERAL}: mesh.annotate %arg0 {as_result = false, required = true, sharding = #mesh.shard<@m, [[0], []]>}
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{"x"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK{LITERAL}: mesh.annotate %arg1 {as_result = true, required = true, sharding = #mesh.shard<@m, [[], [0]]>}
  %1 = "sdy.sharding_constraint"(%y) <{sharding = #sdy.sharding<@m, [{}, {"x"}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK{LITERAL}: mesh.reshard %0 {sharding = #mesh.shard<@m, [[1], []]>}
  %2 = "sdy.reshard"(%0) <{sharding = #sdy.sharding<@m, [{"y"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: mesh.sharding_group %{{.*}} {group_id = 3 : i64}
  "sdy.sharding_group"(%2) <{group_id = 3 : i64}> : (tensor<8x8xf32>) -> ()
  // CHECK: mesh.propagation_barrier %{{.*}} {allowed_direction = "backward"}
  %3 = "sdy.propagation_barrier"(%2) <{allowed_direction = 2 : i32}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = "sdy.sharding_constraint"(%s) <{sharding = #sdy.sharding<@m, []>}> : (f32) -> f32
  // CHECK: return %{{.*}}, %{{.*}}, %arg2
  return %3, %y, %4 : tensor<8x8xf32>, tensor<8x8xf32>, f32
}
