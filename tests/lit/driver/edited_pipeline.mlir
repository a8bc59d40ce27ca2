// A named pipeline can end early, leave passes out, and have others between its own.
//
// RUN: shard-opt %s --spmd --stop-after=propagate | filecheck %s --check-prefix=PROPAGATED
// RUN: shard-opt %s --spmd --stop-after=insert-collectives | filecheck %s --check-prefix=DISTRIBUTED
// RUN: shard-opt %s --spmd --skip=bundle-collectives,rewrite-collectives --dump-pass-pipeline -o %t 2>&1 | filecheck %s --check-prefix=SKIPPED
// RUN: shard-opt %s --spmd --insert-after=partition=canonicalize,cse --insert-after=spmd=symbol-dce --dump-pass-pipeline -o %t 2>&1 | filecheck %s --check-prefix=INSERTED
// RUN: not shard-opt %s --propagate --skip=partition 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: shard-opt %s --spmd --skip=materialize,propagate,partition --dump-pass-pipeline -o %t 2>&1 | filecheck %s --check-prefix=GROUPS
// RUN: shard-opt %s --spmd --stop-after=propagate --insert-after=propagate=cse --dump-pass-pipeline -o %t 2>&1 | filecheck %s --check-prefix=ENDED
// RUN: not shard-opt %s --spmd --insert-after=nix=canonicalize 2>&1 | filecheck %s --check-prefix=NOWHERE
// RUN: not shard-opt %s --spmd --insert-after=propagate 2>&1 | filecheck %s --check-prefix=NOTHING
// RUN: not shard-opt %s --spmd --insert-after=propagate= 2>&1 | filecheck %s --check-prefix=NOTHING
// RUN: not shard-opt %s --spmd --stop-after=propgate 2>&1 | filecheck %s --check-prefix=MISSPELT
// RUN: not shard-opt %s --spmd --skip=materialise 2>&1 | filecheck %s --check-prefix=OTHER

// PROPAGATED: attributes {propagated
// DISTRIBUTED: mesh.form = "distributed"
// SKIPPED-NOT: rewrite-collectives
// SKIPPED: partition{{.*}})
// INSERTED: partition{arguments=pieces results=pieces},canonicalize{{.*}},cse,bundle-collectives{bytes=65536 gathers=false},symbol-dce)
// UNKNOWN: error: no pass 'partition' is in the pipeline: it has propagate, fold-grid-sizes, fold-collective-operands, import
// GROUPS-NOT: propagate-shardings
// GROUPS-NOT: settle-grids
// GROUPS: batch-gathers,compose-slices,sum-in-place,sum-apart,split-reductions,{{.*}}shift-slices,rewrite-collectives
// ENDED: merge-clones,cse)
// NOWHERE: error: no pass 'nix' is in the pipeline: it has spmd, import, inline-functions, sink-reshapes, expand-top-k, expand-random-bits, batch-gathers, compose-slices, sum-in-place, propagate, fold-grid-sizes, fold-collective-operands, settle-grids, open-manual-computations, inline-named-computations, stages-to-grid, clone-per-call, take-merges-apart, propagate-shardings, merge-clones, sum-apart, split-reductions, shift-slices, materialize, complete-shardings, insert-collectives, rewrite-collectives, partition, bundle-collectives{{$}}
// NOTHING: names no passes to run: write --insert-after=propagate=PASSES
// MISSPELT: error: no pass 'propgate' is in the pipeline: did you mean 'propagate'?
// OTHER: error: no pass 'materialise' is in the pipeline: did you mean 'materialize'?

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
