// `--prove` judges what the passes have made, before it is written: of what is refuted, in
// whatever form, nothing is.
//
// RUN: shard-opt %s --spmd --prove -o %t.local 2>&1 | filecheck %s --check-prefix=PROVEN
// RUN: shard-opt %t.local --prove=%s -o %t.same 2>&1 | filecheck %s --check-prefix=PROVEN
// RUN: diff %t.local %t.same
// RUN: shard-opt %s --spmd --prove --emit-python=mpi4py 2>/dev/null | filecheck %s --check-prefix=PYTHON
// RUN: sed s/add/multiply/ %t.local > %t.wrong

// RUN: not shard-opt %t.wrong --prove=%s 2> %t.err > %t.out
// RUN: filecheck %s --check-prefix=REFUTED --input-file=%t.err
// RUN: test ! -s %t.out
// RUN: not shard-opt %t.wrong --prove=%s --emit-python=mpi4py 2>/dev/null > %t.out
// RUN: test ! -s %t.out
// RUN: rm -f %t.none
// RUN: not shard-opt %t.wrong --prove=%s -o %t.none
// RUN: not shard-opt %t.wrong --prove=%s --emit-python=torch -o %t.none
// RUN: not shard-opt %t.wrong --prove=%s --emit-stablehlo -o %t.none
// RUN: not shard-opt %t.wrong --prove=%s --emit-bytecode -o %t.none
// RUN: test ! -e %t.none
// RUN: not shard-opt %t.local --prove 2>&1 >/dev/null | filecheck %s --check-prefix=LOCAL
// RUN: not shard-opt %s --spmd --lower --prove 2>&1 | filecheck %s --check-prefix=LOWERED
// RUN: not shard-opt %s --list-mutations --prove 2>&1 | filecheck %s --check-prefix=MUTATIONS
// RUN: not shard-opt %s --spmd --prove=%examples/mlp_1d.mlir 2>&1 | filecheck %s --check-prefix=OTHER

// PROVEN: {{^}}note: proven: every device computes the unsharded program, for all inputs{{$}}
// PYTHON: def main(
// REFUTED: {{^}}error: refuted: result 0: the device at [0] has another number at [0, 0] than the unsharded program; 32 of 32 elements differ (a run on random inputs confirms it: {{.*}})
// REFUTED-NOT: {{.}}
// LOCAL: opt.mlir.tmp.local:{{[0-9]+}}:3: error: @main is in the local form, which no longer has the unsharded program: name a file with that, as in --prove=FILE of shard-opt or --reference of shard-run
// LOWERED: opt.mlir:{{[0-9]+}}:1: error: @main is in the lowered form: nothing is proven of it
// MUTATIONS: error: --list-mutations, which runs no passes, is given together with --prove
// OTHER: opt.mlir:{{[0-9]+}}:1: error: @main has 2 arguments, and the unsharded program 3: nothing is compared

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
                %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.add %x, %y : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
