// A soft constraint is followed as far as the constraints leave it open; else a warning has the
// sharding that holds instead.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --propagate | filecheck %s
// RUN: shard-opt %s --split-input-file --verify-diagnostics --spmd

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @followed
// CHECK: math.tanh
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<[[0], [1]]>]
func.func @followed(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = [1]}]>})
    -> tensor<8x16xf32> attributes {mesh_cluster = @g} {
  %0 = math.tanh %x : tensor<8x16xf32>
  %1 = "mesh.annotate"(%0) {sharding = [[0], [1]], required = false}
    : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @overruled
// CHECK: math.tanh
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<[[0], []]>]
func.func @overruled(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> tensor<8x16xf32> attributes {mesh_cluster = @g} {
  %0 = math.tanh %x : tensor<8x16xf32>
  // expected-warning@+1 {{the soft constraint [[1], []] is overruled: other annotations make the value [[0], []]}}
  %1 = "mesh.annotate"(%0) {sharding = [[1]], required = false}
    : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// A soft constraint with an open dimension is satisfied if the value is split further there.
// CHECK-LABEL: func.func @exceeded
// CHECK: mesh.annotate
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<[[0, 1], []]>]
func.func @exceeded(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1], []]>})
    -> tensor<8x16xf32> attributes {mesh_cluster = @g} {
  %1 = "mesh.annotate"(%x) {sharding = [[0], [], {open = [0]}], required = false}
    : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// A soft constraint does not open a dimension that a constraint closed.
// CHECK-LABEL: func.func @kept_closed
// CHECK: math.absf
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<[[0], []]>]
func.func @kept_closed(%x: tensor<8x16xf32>, %y: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1]]>})
    -> tensor<8x16xf32> attributes {mesh_cluster = @g} {
  %0 = math.absf %x {mesh.shardings = [#mesh.shard<@g, [[0], []]>]} : tensor<8x16xf32>
  %1 = "mesh.annotate"(%0) {sharding = [[0], [], {open = [0, 1]}], required = false}
    : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = arith.addf %1, %y : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// Shards need not be of one size.
// CHECK-LABEL: func.func @indivisible
// CHECK: mesh.annotate
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<[[0], []]>]
func.func @indivisible(%x: tensor<3x16xf32>) -> tensor<3x16xf32> attributes {mesh_cluster = @g} {
  %0 = "mesh.annotate"(%x) {sharding = [[0]], required = false, as_result = false}
    : (tensor<3x16xf32>) -> tensor<3x16xf32>
  return %0 : tensor<3x16xf32>
}
