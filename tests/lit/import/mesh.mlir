// Our own annotations get one spelling: a grid, both flags, and attributes in place of types.
//
// RUN: shard-opt %s --import | filecheck %s
// RUN: shard-opt %s --import | shard-opt --import | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()

// CHECK-LABEL: func.func @spelled_out
func.func @spelled_out(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  // CHECK{LITERAL}: %0 = mesh.annotate %arg0 {as_result = true, required = true, sharding = #mesh.shard<[[0], []]>}
  %0 = "mesh.annotate"(%x) {sharding = [[0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // Later uses of the value go through its annotation; one for users that has none is dropped.
  // CHECK-NEXT: %1 = math.tanh %0
  %1 = "mesh.annotate"(%x) {sharding = [[1]], as_result = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = math.tanh %x : tensor<4x8xf32>
  // CHECK-NEXT{LITERAL}: mesh.annotate %1 {as_result = false, required = false, sharding = #mesh.shard<[[1], []]>}
  %3 = "mesh.annotate"(%2) {sharding = [array<i64: 1>, []], required = false, as_result = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT{LITERAL}: mesh.reshard %0 {sharding = #mesh.shard<[[], [0]]>}
  %4 = "mesh.reshard"(%x) {sharding = [[], [0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3, %4 : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @types
// CHECK-SAME{LITERAL}: (%arg0: i1, %arg1: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32>
func.func @types(%c: i1, %x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>> {
  // CHECK: scf.if
  %0 = scf.if %c -> tensor<4xf32, #mesh.shard<@g, [[0]]>> {
    // CHECK{LITERAL}: math.tanh %arg1 {mesh.shardings = [#mesh.shard<@g, [[0]]>]} : tensor<4xf32>
    %1 = math.tanh %x : tensor<4xf32, #mesh.shard<@g, [[0]]>>
    scf.yield %1 : tensor<4xf32, #mesh.shard<@g, [[0]]>>
  } else {
    scf.yield %x : tensor<4xf32, #mesh.shard<@g, [[0]]>>
  // CHECK{LITERAL}: } {mesh.shardings = [#mesh.shard<@g, [[0]]>]}
  }
  cf.br ^bb1(%0 : tensor<4xf32, #mesh.shard<@g, [[0]]>>)
// CHECK: ^bb1([[ARG:%.*]]: tensor<4xf32>):
^bb1(%2: tensor<4xf32, #mesh.shard<@g, [[0]]>>):
  // CHECK-NEXT: mesh.annotate [[ARG]] {as_result = true
  return %2 : tensor<4xf32, #mesh.shard<@g, [[0]]>>
}

// CHECK-LABEL: func.func private @declared
// CHECK-SAME{LITERAL}: (tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> (tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[1]]>})
func.func private @declared(tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32, #mesh.shard<@g, [[1]]>>

// CHECK-LABEL: func.func @attributes
// CHECK-SAME{LITERAL}: (%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [1]]>})
func.func @attributes(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [], {sum = [1]}]>}) {
  // CHECK{LITERAL}: math.tanh %arg0 {mesh.shardings = [#mesh.shard<@g, [[], []]>]}
  %0 = math.tanh %x {mesh.shardings = [#mesh.shard<@g, []>]} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
