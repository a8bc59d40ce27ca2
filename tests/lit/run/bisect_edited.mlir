// Of an edited program `--bisect` names the op that makes what the program of `--reference` does not.
//
// RUN: shard-opt %s --spmd -o %t.local.mlir
// RUN: shard-run %t.local.mlir --bisect --reference=%s
// RUN: sed s/math.exp/math.tanh/ %t.local.mlir > %t.edited.mlir
// RUN: not shard-run %t.edited.mlir --bisect --reference=%s 2>&1 >%t.out | filecheck %s --check-prefix=LOCAL
// RUN: filecheck %s --check-prefix=OUT --input-file=%t.out
// RUN: sed s/math.exp/math.tanh/ %s > %t.other.mlir
// RUN: not shard-run %t.other.mlir --bisect --reference=%s 2>&1 | filecheck %s --check-prefix=LOCAL

// OUT: {{^}}check failed{{$}}
// LOCAL: .mlir:{{.*}}: error: the result of 'math.tanh' op is another than that of 'math.exp' op in the program of --reference: on device
// LOCAL-NEXT: bisect_edited.mlir:18:8: note: there, the same goes to 'math.exp' op
// LOCAL-NEXT: note: result0 on device

shard.grid @g(shape = 2)
func.func @main(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<8xf32> {
  %0 = math.exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
