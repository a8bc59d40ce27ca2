// `--prove` judges the program that was compiled, for its sizes; what is refuted does not run.
//
// RUN: shard-run %s --shapes=4x8 --prove 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=PROVEN --input-file=%t.err
// RUN: shard-run %s --shapes=4x8 --prove --check --json 2>%t.err | filecheck %s --check-prefix=JSON
// RUN: test ! -s %t.err

// RUN: shard-opt %s --specialize="shapes={4x8}" -o %t.whole
// RUN: shard-opt %t.whole --spmd -o %t.local
// RUN: shard-run %t.local --reference=%t.whole --prove 2>&1 | filecheck %s --check-prefix=PROVEN
// RUN: not shard-run %t.local --prove 2>&1 | filecheck %s --check-prefix=LOCAL
// RUN: sed s/tanh/sine/ %t.local > %t.wrong
// RUN: not shard-run %t.wrong --reference=%t.whole --prove > %t.out 2> %t.err
// RUN: filecheck %s --check-prefix=REFUTED --input-file=%t.err
// RUN: test ! -s %t.out
// RUN: not shard-run %t.wrong --reference=%t.whole --prove --json 2>&1 | filecheck %s --check-prefix=BOTH

// CHECK: @main on 4 devices
// PROVEN: {{^}}note: proven: every device computes the unsharded program, for all inputs{{$}}
// JSON: "check": {"passed": true,
// JSON-SAME: "proof": {"answer": "proven", "assumptions": [], "reason": "", "evaluations": 2, "counterexample": null}
// LOCAL: run.mlir.tmp.local:{{[0-9]+}}:3: error: @main is in the local form, which no longer has the unsharded program: name a file with that, as in --prove=FILE of shard-opt or --reference of shard-run
// REFUTED: {{^}}error: refuted: result 0: the device at [0, 0] has another number at [0] than the unsharded program; 4 of 4 elements differ (a run on random inputs confirms it: {{.*}})
// REFUTED-NOT: {{.}}
// BOTH: "proof": {"answer": "refuted", "assumptions": [], "reason": "a run on random inputs confirms it: {{.*}}", "evaluations": 1, "counterexample": {"result": 0, "device": [0, 0], "element": [0], "wrong": 4, "compared": 4, "why": ""}}
// BOTH: error: refuted: result 0:

shard.grid @g(shape = 2x2)

func.func @main(%x: tensor<?x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}) -> tensor<?xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.tanh %x : tensor<?x8xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<?x8xf32>, tensor<f32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
