// Where `--bisect` finds no op: the reference is another program, or values do not say how they lie.
//
// RUN: shard-opt %s --spmd -o %t.local.mlir
// RUN: not shard-run %t.local.mlir --bisect --reference=%s 2>&1 | filecheck %s --check-prefix=LOCAL
// RUN: sed s/math.exp/math.tanh/ %s > %t.other.mlir
// RUN: not shard-run %s --bisect --reference=%t.other.mlir 2>&1 >%t.out | filecheck %s
// RUN: filecheck %s --check-prefix=OUT --input-file=%t.out

// LOCAL: local.mlir:{{.*}}: error: function @main is in the local form, where values no longer have shardings: give --bisect an earlier one
// OUT: {{^}}check failed{{$}}
// CHECK: {{^}}error: the reference is another program: without shardings they differ, too
// CHECK-NEXT: note: result0 on device

shard.grid @g(shape = 2)
func.func @main(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<8xf32> {
  %0 = math.exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
