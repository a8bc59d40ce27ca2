// The pipeline with all options, in the text that --pass-pipeline takes.
//
// RUN: shard-opt %s --propagate --materialize=strict --cse --dump-pass-pipeline -o %t.out 2>&1 | filecheck %s
// RUN: shard-opt %s --pass-pipeline='builtin.module(propagate{strategy=cost},materialize{strict=true},cse)' --dump-pass-pipeline -o %t.out 2>&1 | filecheck %s
// RUN: shard-opt %s --spmd --llvm-request-c-wrappers --dump-pass-pipeline -o %t.out 2>&1 | filecheck %s --check-prefix=EXPANDED

// CHECK: builtin.module(propagate{strategy=cost conservative=false remarks=false},materialize{strict=true objective=bytes device-model=h100},cse)
// EXPANDED: builtin.module({{.*}}propagate{strategy=cost conservative=false remarks=false},split-reductions,shift-slices,materialize{strict=false objective=bytes device-model=h100},optimize-collectives{narrow=false objective=bytes device-model=h100},partition{arguments=pieces results=pieces},func.func(llvm-request-c-wrappers))

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
