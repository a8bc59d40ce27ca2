// The remark on a conflict tells that a side won by its priority, whatever the sizes are, and in a chain of ops, too.
//
// RUN: shard-opt %s --propagate=remarks=true --verify-diagnostics | filecheck %s
// RUN: shard-opt %s --propagate=explain=@through_ops:%0 2>&1 | filecheck %s --check-prefix=EXPLAINED
// RUN: shard-opt %s --propagate=explain=@late:%arg0 2>&1 | filecheck %s --check-prefix=LATE

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()

// CHECK-LABEL: func.func @as_large
// expected-note@+3 {{dimension 0 along [0]: annotated}}
// expected-note@+3 {{dimension 1 along [0]: annotated}}
func.func @as_large(
    %x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {priority = [1, unit]}]>},
    %y: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], {priority = [unit, 0]}]>}) -> tensor<8x8xf32> {
  // expected-remark@+2 {{dimension 1 of operand 1 split along [0] wins: its annotation has priority 0, the other's 1}}
  // CHECK: stablehlo.add {{.*}}[{{\[\]}}, [0]]
  %0 = stablehlo.add %x, %y : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @the_smaller
// expected-note@+3 {{dimension 0 along [0]: annotated}}
// expected-note@+3 {{dimension 1 along [0]: annotated}}
func.func @the_smaller(
    %x: tensor<8x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
    %y: tensor<4x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], {priority = [unit, 7]}]>}) -> tensor<8x64xf32> {
  // expected-remark@+2 {{dimension 0 of operand 0 split along [0] wins: its annotation has priority 0, the other's 7}}
  // CHECK: stablehlo.dot_general {{.*}}[{{\[0\]}}, []]
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

// The priority is that of the annotation where the split comes from.
// EXPLAINED: remark: %0 is sharded as {{\[\[\]}}, [0]]
// EXPLAINED: dimension 1 along [0]: by 'math.exp' op, from operand 0
// CHECK-LABEL: func.func @through_ops
// expected-note@+3 {{dimension 0 along [0]: annotated}}
// expected-note@+3 {{dimension 1 along [0]: annotated}}
func.func @through_ops(
    %x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {priority = [2, unit]}]>},
    %y: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], {priority = [unit, 1]}]>}) -> tensor<8x8xf32> {
  %0 = math.exp %y : tensor<8x8xf32>
  // expected-remark@+1 {{dimension 1 of operand 1 split along [0] wins: its annotation has priority 1, the other's 2}}
  %1 = arith.addf %x, %0 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// Before its turn, %x was split by its other dimension: the chain of ops still ends at its annotation.
// LATE: remark: %arg0 is sharded as {{\[\[0\]}}, [1]]
// LATE-NEXT: note: dimension 0 along [0]: annotated
// LATE-NEXT: note: dimension 1 along [1]: by 'math.exp' op, from result 0
// CHECK-LABEL: func.func @late
func.func @late(
    %x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = [1], priority = [2, 0]}]>})
    -> (tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1], {open = [0]}]>}) {
  %0 = math.exp %x : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
