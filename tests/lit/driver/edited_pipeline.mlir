// A named pipeline can end early, leave passes out, and have others between its own.
//
// RUN: shard-opt %s --spmd --stop-after=propagate | filecheck %s --check-prefix=PROPAGATED
// RUN: shard-opt %s --spmd --stop-after=insert-collectives | filecheck %s --check-prefix=DISTRIBUTED
// RUN: shard-opt %s --spmd --skip=bundle-collectives,rewrite-collectives --dump-pass-pipeline -o %t 2>&1 | filecheck %s --check-prefix=SKIPPED
// RUN: shard-opt %s --spmd --insert-after=partition=canonicalize,cse --insert-after=spmd=symbol-dce --dump-pass-pipeline -o %t 2>&1 | filecheck %s --check-prefix=INSERTED
// RUN: not shard-opt %s --propagate --skip=partition 2>&1 | filecheck %s --check-prefix=UNKNOWN

// PROPAGATED: mesh.form = "propagated"
// DISTRIBUTED: mesh.form = "distributed"
// SKIPPED-NOT: rewrite-collectives
// SKIPPED: partition{{.*}})
// INSERTED: partition{arguments=pieces results=pieces},canonicalize{{.*}},cse,bundle-collectives{bytes=65536},symbol-dce)
// UNKNOWN: error: no pass 'partition' is in the pipeline: it has fold-grid-sizes, fold-collective-operands, import

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
