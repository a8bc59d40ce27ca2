// A plugin's dialect is read, its rule shards, its pass is a flag and an element of pipelines.
//
// RUN: shard-opt %s --load-plugin %S/Inputs/toy.py --spmd --toy-count=least=2,order=last > %t.out 2> %t.err
// RUN: filecheck %s --input-file=%t.out
// RUN: filecheck %s --input-file=%t.err --check-prefix=REMARK
// RUN: shard-opt %s --load-plugin %S/Inputs/toy.py --pass-pipeline='builtin.module(spmd,func.func(cse,toy-count{least=2 order=last},cse))' -o %t.same 2> %t.err2
// RUN: diff %t.out %t.same
// RUN: diff %t.err %t.err2
// RUN: shard-opt --load-plugin %S/Inputs/toy.py --help=passes | filecheck %s --check-prefix=HELP
// RUN: shard-opt --load-plugin %S/Inputs/toy.py --show-dialects | filecheck %s --check-prefix=DIALECTS
// RUN: not shard-opt %s --load-plugin %S/Inputs/toy.py --toy-count=order=middle 2>&1 | filecheck %s --check-prefix=CHOICE
// RUN: not shard-opt %s --load-plugin %S/Inputs/toy.py --pass-pipeline='builtin.module(toy-count)' 2>&1 | filecheck %s --check-prefix=ANCHOR

// REMARK: plugin.mlir:{{[0-9]+}}:1: remark: function @main has 2 ops
// REMARK-NEXT: plugin.mlir:{{[0-9]+}}:3: note: the last op
// HELP: --toy-count {{ *}}Say how many ops a function has.
// HELP-NEXT: least {{ *}}Functions with fewer ops are not mentioned. (int, default 0)
// HELP-NEXT: order {{ *}}Which op a note points at. (first|last, default first)
// DIALECTS: tosa,toy,transform
// CHOICE: error: option 'order' of pass 'toy-count' must be one of first, last, found 'middle'
// ANCHOR: error: pass 'toy-count' runs on 'func.func', but stands in 'builtin.module(...)': write func.func(toy-count)

shard.grid @g(shape = 2)
// CHECK-LABEL: func.func @main
// CHECK-NEXT: "toy.twice"(%arg0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x4xf32>
  %1 = "toy.twice"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
