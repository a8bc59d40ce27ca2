// The pipeline with all options, in the text that --pass-pipeline takes.
//
// RUN: shard-opt %s --propagate --materialize=strict --cse --dump-pass-pipeline -o %t.out 2>&1 | filecheck %s
// RUN: shard-opt %s --pass-pipeline='builtin.module(propagate{strategy=cost},materialize{strict=true},cse)' --dump-pass-pipeline -o %t.out 2>&1 | filecheck %s
// RUN: shard-opt %s --spmd --llvm-request-c-wrappers --dump-pass-pipeline -o %t.out 2>&1 | filecheck %s --check-prefix=EXPANDED

// CHECK: builtin.module(fold-grid-sizes,fold-collective-operands,import,settle-grids,open-manual-computations,inline-named-computations,inline-functions,stages-to-grid,clone-per-call,take-merges-apart{strategy=cost conservative=false},propagate-shardings{strategy=cost conservative=false remarks=false printed-as=mesh},merge-clones,import,open-manual-computations,complete-shardings,insert-collectives{objective=bytes device-model=h100 strict=true},cse)
// EXPANDED: builtin.module(import,inline-functions,sink-reshapes,{{.*}},merge-clones,sum-apart,split-reductions,shift-slices,import,open-manual-computations,complete-shardings,insert-collectives{objective=bytes device-model=h100 strict=false},rewrite-collectives{objective=bytes device-model=h100 narrow=false},partition{arguments=pieces results=pieces},bundle-collectives{bytes=65536 gathers=false},func.func(llvm-request-c-wrappers))

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
