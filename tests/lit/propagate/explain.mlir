// The origin of every inferred sharding is recorded, op by op back to the user's annotation.
//
// RUN: shard-opt %s --propagate --explain-sharding=%%3 2>&1 >%t.out | filecheck %s --check-prefix=NAME
// RUN: shard-opt %s --propagate --explain-sharding=@main:%%arg1 2>&1 >%t.out | filecheck %s --check-prefix=ARGUMENT
// RUN: shard-opt %s --propagate --explain-sharding=33 2>&1 >%t.out | filecheck %s --check-prefix=NAME
// RUN: shard-opt %s --spmd --explain-sharding=@other:%%0 2>&1 >%t.out | filecheck %s --check-prefix=NOTHING
// RUN: not shard-opt %s --propagate --explain-sharding=%%30 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not shard-opt %s --cse --explain-sharding=%%3 2>&1 | filecheck %s --check-prefix=USELESS

// NAME: {{.*}}explain.mlir:33:14: remark: %3 is sharded as {{\[\[}}], [0, 1]]
// NAME-NEXT: {{.*}}explain.mlir:33:14: note: dimension 1 along [0, 1]: by 'stablehlo.transpose' op, from operand 0
// NAME-NEXT: {{.*}}explain.mlir:32:8: note: dimension 0 along [0, 1]: by 'stablehlo.add' op, from operand 0
// NAME-NEXT: {{.*}}explain.mlir:31:8: note: dimension 0 along [0, 1]: by 'stablehlo.tanh' op, from operand 0
// NAME-NEXT: {{.*}}explain.mlir:30:8: note: dimension 0 along [0, 1]: annotated
// NAME-NOT: note

// Backward from an op's other operand.
// ARGUMENT: {{.*}}explain.mlir:28:1: remark: %arg1 is sharded as {{\[\[}}0, 1], []]
// ARGUMENT-NEXT: {{.*}}explain.mlir:32:8: note: dimension 0 along [0, 1]: by 'stablehlo.add' op, from operand 0
// ARGUMENT:      note: dimension 0 along [0, 1]: annotated

// NOTHING: remark: %0 is replicated: nothing has reached it
// UNKNOWN: error: there is no value %30 to explain: give its name in the file, or as it is printed, as in %3, or @f:%3 in function @f, or the number of its line
// USELESS: error: --explain-sharding is of no use here: it is for --propagate (its option 'explain'), which is not in the pipeline

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()

func.func @main(%x: tensor<8x8xf32>,
                %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0, 1], []]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.tanh %0 : tensor<8x8xf32>
  %2 = stablehlo.add %1, %y : tensor<8x8xf32>
  %flipped = stablehlo.transpose %2, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %flipped : tensor<8x8xf32>
}

func.func @other(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.tanh %x : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// The file's own names: that of an argument, and that of an op's result, which MLIR does not keep.
// RUN: shard-opt %s --propagate --explain-sharding=%%y 2>&1 >%t.out | filecheck %s --check-prefix=ARGUMENT
// RUN: shard-opt %s --propagate --explain-sharding=%%flipped 2>&1 >%t.out | filecheck %s --check-prefix=NAME
