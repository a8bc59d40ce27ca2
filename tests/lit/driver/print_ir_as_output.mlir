// What is printed between passes is spelled as the output is.
//
// RUN: shard-opt %s --propagate --mlir-print-ir-after=propagate -o %t.out 2> %t.err
// RUN: grep -v '^// --' %t.err | grep . > %t.printed
// RUN: diff %t.printed %t.out
// RUN: filecheck %s --input-file=%t.printed --check-prefix=SHARD
// RUN: shard-opt %s --propagate --materialize --mlir-print-ir-after=materialize -o %t.out 2> %t.err
// RUN: grep -v '^// --' %t.err | grep . > %t.printed
// RUN: diff %t.printed %t.out
// RUN: filecheck %s --input-file=%t.printed --check-prefix=MESH
// RUN: shard-opt %s --spmd --stop-after=insert-collectives --mlir-print-ir-after-all -o %t.out 2> %t.err
// RUN: filecheck %s --input-file=%t.err --check-prefix=LAST
// RUN: rm -rf %t.tree
// RUN: shard-opt %s --pass-pipeline='builtin.module(propagate,func.func(cse))' --mlir-print-ir-after-all --mlir-print-ir-tree-dir=%t.tree -o %t.out 2> %t.err
// RUN: filecheck %s --input-file=%t.tree/builtin_module_no-symbol-name/2_import.mlir --check-prefix=SHARD
// RUN: ls %t.tree/builtin_module_no-symbol-name/func_func_main | filecheck %s --check-prefix=TREE

// SHARD-NOT: "mesh.
// SHARD: shard.shard %
// SHARD-NOT: mesh.annotate
// MESH-NOT: "mesh.
// MESH: mesh.all_reduce %
// LAST: IR Dump After insert-collectives
// LAST: mesh.all_reduce %
// TREE: _cse.mlir
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %y = shard.shard %x to %s : tensor<4x8xf32>
  %0 = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
