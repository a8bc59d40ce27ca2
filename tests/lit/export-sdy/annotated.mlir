// Annotations of each kind in Shardy's words, from ours; an axis without a name gets one.
//
// RUN: shard-opt %s --export-sdy | filecheck %s
// RUN: shard-opt %s --export-sdy --import > %t.back
// RUN: shard-opt %s --import | diff - %t.back

// CHECK: sdy.mesh @g = <["axis_0"=2, "axis_1"=8]>
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// CHECK: sdy.mesh @named = <["x"=2], device_ids=[1, 0]>
"mesh.cluster"() {sym_name = "named", rank = 1 : i64, dim_sizes = [2], axis_names = ["x"], device_ids = [1, 0]} : () -> ()
// CHECK: sdy.mesh @one = <[], device_ids=[3]>
"mesh.cluster"() {sym_name = "one", rank = 0 : i64, device_ids = [3]} : () -> ()

// CHECK-LABEL: func.func @annotations
// CHECK-SAME{LITERAL}: (%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@g, [{"axis_0"}, {"axis_1":(1)2, ?}p1], replicated={"axis_1":(4)2}>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@one, []>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@named, [{}, {"x"}]>})
func.func @annotations(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], ["1:(1)2"], {open = [1], priority = [unit, 1], replicated = ["1:(4)2"]}]>},
                       %y: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@one, []>})
    -> (tensor<8x8xf32> {mesh.sharding = #mesh.shard<@named, [[], [0]]>}) {
  // CHECK-NEXT{LITERAL}: math.sincos %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@g, [{?}, {?}]>, <@g, [{}, {}], unreduced={"axis_0"}>]>}
  %a, %b = math.sincos %x {mesh.shardings = [unit, #mesh.shard<@g, [[], [], [0]]>]} : tensor<8x8xf32>
  // CHECK-NEXT{LITERAL}: sdy.sharding_constraint %sin <@g, [{"axis_0"}, {}]>
  %0 = "mesh.annotate"(%a) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT{LITERAL}: %1 = sdy.sharding_constraint %sin <@g, [{"axis_1"}, {}]>
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[1]]>, as_result = false} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT{LITERAL}: %2 = sdy.reshard %1 <@g, [{}, {}]>
  %2 = "mesh.reshard"(%1) {sharding = #mesh.shard<@g, []>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT: "sdy.sharding_group"(%2) {group_id = 7 : i64}
  "mesh.sharding_group"(%2) {group_id = 7 : i64} : (tensor<8x8xf32>) -> ()
  // CHECK-NEXT: %3 = "sdy.propagation_barrier"(%2) {allowed_direction = 1 : i32}
  %3 = "mesh.propagation_barrier"(%2) {allowed_direction = "forward"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT{LITERAL}: math.tanh %3 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}>}
  %4 = math.tanh %3 {mesh.sharding_rule = "([i, j])->([i, j]) {i=8, j=8}"} : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// Newer versions of Shardy say so of other reductions than sums.
// CHECK-LABEL: func.func @a_partial_maximum
func.func @a_partial_maximum(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = math.tanh %x : tensor<8x8xf32>
  // CHECK{LITERAL}: sdy.sharding_constraint %0 <@g, [{}, {}], unreduced=max{"axis_0"}>
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[], [], {max = [0]}]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @a_call
func.func @a_call(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK: "sdy.named_computation"
  %0 = scf.execute_region -> tensor<8x8xf32> no_inline {
    // CHECK: func.call @callee
    %1 = func.call @callee(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: "sdy.return"
    // CHECK-NEXT: }) {name = "f"}
    scf.yield %1 : tensor<8x8xf32>
  } {mesh.named_computation = "f"}
  return %0 : tensor<8x8xf32>
}
func.func private @callee(tensor<8x8xf32>) -> tensor<8x8xf32>
