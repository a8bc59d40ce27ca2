// A pipeline that fails leaves the module and the pipeline in a file, which runs again; one that succeeds leaves none.
//
// RUN: not shard-opt %s --canonicalize --propagate --materialize --strict --verify-each=0 --mlir-pass-pipeline-crash-reproducer=%t.mlir 2>&1 | filecheck %s --check-prefix=FAILED
// RUN: filecheck %s --input-file=%t.mlir
// RUN: not shard-opt %t.mlir --run-reproducer 2>&1 | filecheck %s --check-prefix=AGAIN
// RUN: not shard-opt %t.mlir --run-reproducer --cse 2>&1 | filecheck %s --check-prefix=TWO
// RUN: not shard-opt %s --run-reproducer 2>&1 | filecheck %s --check-prefix=NONE
// RUN: shard-opt %s --propagate --mlir-pass-pipeline-crash-reproducer=%t.gone -o %t.out
// RUN: not shard-opt %t.gone 2>&1 | filecheck %s --check-prefix=GONE
// RUN: not shard-opt %s --cse --mlir-pass-pipeline-crash-reproducer=%s 2>&1 | filecheck %s --check-prefix=ITSELF
// RUN: shard-opt %S/Inputs/reproducer.mlir --run-reproducer 2>%t.errors | filecheck %s --check-prefix=UPSTREAM
// RUN: filecheck %s --input-file=%t.errors --check-prefix=LABEL
//
// FAILED: note: the module and the pipeline are in '{{.*}}.mlir': run it by --run-reproducer
// FAILED: reproducers.mlir:{{[0-9]+}}:8: error: 'tosa.custom' op has no sharding rule
// CHECK: shard.grid @g
// CHECK: tosa.custom
// CHECK: mlir_reproducer: {
// CHECK-NEXT: pipeline: "builtin.module(canonicalize{{.*}},{{.*}},propagate-shardings{strategy=cost conservative=false remarks=false printed-as=mesh},merge-clones,{{.*}},insert-collectives{objective=bytes device-model=h100 strict=true})",
// CHECK-NEXT: disable_threading: true,
// CHECK-NEXT: verify_each: false
// AGAIN: error: 'tosa.custom' op has no sharding rule
// TWO: error: --run-reproducer is given together with --cse: use one of them
// NONE: reproducers.mlir:1:1: error: is no reproducer
// ITSELF: error: '{{.*}}reproducers.mlir' would be read and written over
// GONE: error: cannot read
// LABEL-NOT: warning
// LABEL: a, b
// UPSTREAM: arith.constant 1
// UPSTREAM-NOT: arith.constant

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4xf32>
  %1 = tosa.custom %0 {operator_name = "a", domain_name = "b", implementation_attrs = "c"} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
