// Functions name their grid, arguments, results and ops their shardings, and ops a rule.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
"mesh.cluster"() {sym_name = "one_device", rank = 0 : i64, device_ids = [3]} : () -> ()

// CHECK-LABEL: func.func @boundary
// CHECK-SAME{LITERAL}: (%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %arg1: f32 {mesh.sharding = #mesh.shard<@g, []>}) -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>})
// CHECK-SAME: attributes {mesh_cluster = @g}
func.func @boundary(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
                    %y: f32 {mesh.sharding = #mesh.shard<@g, []>})
    -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>}) attributes {mesh_cluster = @g} {
  // CHECK{LITERAL}: math.tanh %arg0 {mesh.shardings = [#mesh.shard<@g, [[0], [], {open = [1]}]>]} : tensor<4x8xf32>
  %0 = math.tanh %x {mesh.shardings = [#mesh.shard<@g, [[0], [], {open = [1]}]>]} : tensor<4x8xf32>
  // CHECK{LITERAL}: math.sincos %0 {mesh.shardings = [unit, #mesh.shard<@g, [[0]]>]}
  %s, %c = math.sincos %0 {mesh.shardings = [unit, #mesh.shard<@g, [[0]]>]} : tensor<4x8xf32>
  // CHECK: math.tanh %{{.*}} {mesh.sharding_rule = "([i, j])->([i, j]) {i=4, j=8}"} : tensor<4x8xf32>
  %1 = math.tanh %s {mesh.sharding_rule = "([i, j])->([i, j]) {i=4, j=8}"} : tensor<4x8xf32>
  // CHECK{LITERAL}: call @effect() {mesh.shardings = [#mesh.shard<@one_device, []>]}
  func.call @effect() {mesh.shardings = [#mesh.shard<@one_device, []>]} : () -> ()
  return %1 : tensor<4x8xf32>
}

func.func private @effect()

// CHECK-LABEL: func.func private @declared
// CHECK-SAME{LITERAL}: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}
func.func private @declared(tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})

// CHECK-LABEL: func.func @in_a_form
// CHECK-SAME: attributes {propagated
func.func @in_a_form(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) attributes {propagated} {
  return
}

// CHECK-LABEL: func.func @on_one_device
// CHECK-SAME{LITERAL}: mesh.argument = tensor<4x8xf32, #mesh.shard<@g, [[0], [1]]>>
// CHECK-SAME{LITERAL}: mesh.result = tensor<4x8xf32, #mesh.shard<@g, [[0], [1]]>>
func.func @on_one_device(%x: tensor<2x2xf32> {mesh.argument = tensor<4x8xf32, #mesh.shard<@g, [[0], [1]]>>})
    -> (tensor<2x2xf32> {mesh.result = tensor<4x8xf32, #mesh.shard<@g, [[0], [1]]>>})
    attributes {mesh.form = "local"} {
  return %x : tensor<2x2xf32>
}
