// `shard-prove` compares two files, and fails unless the second is proven to be the first.
//
// RUN: shard-opt %s --spmd -o %t.local
// RUN: shard-prove %s %t.local 2>&1 | filecheck %s
// RUN: shard-opt %s --spmd | shard-prove %s - 2>&1 | filecheck %s
// RUN: shard-prove %s %t.local --entry=other 2>&1 | filecheck %s
// RUN: shard-opt %s --propagate --materialize | shard-prove %s - 2>&1 | filecheck %s
// RUN: shard-prove %s %t.local --json 2>&1 | filecheck %s --check-prefix=JSON

// RUN: sed s/tanh/exp/ %t.local > %t.wrong
// RUN: not shard-prove %s %t.wrong 2>&1 | filecheck %s --check-prefix=REFUTED
// RUN: not shard-prove %s %t.wrong --json 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: shard-prove %s %t.wrong --entry=other 2>&1 | filecheck %s

// RUN: sed s/@strange/@other/ %s > %t.strange
// RUN: not shard-prove %s %t.strange --entry=boxed 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not shard-prove %s %t.strange --entry=boxed --json 2> %t.err | filecheck %s --check-prefix=OBJECT
// RUN: test ! -s %t.err

// RUN: not shard-prove %s 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not shard-prove - - 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: not shard-prove %s %t.none 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not shard-prove %s %t.local --entry=third 2>&1 | filecheck %s --check-prefix=ENTRY
// RUN: not shard-prove %t.local %t.local 2>&1 | filecheck %s --check-prefix=FORM
// RUN: not shard-prove %examples/mlp_1d.mlir %t.local 2>&1 | filecheck %s --check-prefix=COUNT
// RUN: echo "func.func @main(" > %t.cut
// RUN: not shard-prove %s %t.cut 2>&1 | filecheck %s --check-prefix=CUT
// RUN: not shard-prove %t.cut %s 2>&1 | filecheck %s --check-prefix=CUT
// RUN: shard-opt %t.local --pick-device=rank=1 | not shard-prove %s - 2>&1 | filecheck %s --check-prefix=ALONE

// CHECK: {{^}}note: proven: every device computes the unsharded program, for all inputs{{$}}
// CHECK-NOT: {{.}}
// JSON: {
// JSON-NEXT:   "answer": "proven",
// JSON-NEXT:   "assumptions": [],
// JSON-NEXT:   "reason": "",
// JSON-NEXT:   "evaluations": 2,
// JSON-NEXT:   "counterexample": null
// JSON-NEXT: }
// JSON-NOT: {{.}}
// REFUTED: {{^}}error: refuted: result 0: the device at [0] has another number at [0, 0] than the unsharded program; 32 of 32 elements differ (a run on random inputs confirms it: {{.*}})
// BOTH: "answer": "refuted"
// BOTH: "counterexample": {
// BOTH-NEXT:     "result": 0,
// BOTH-NEXT:     "device": [
// BOTH-NEXT:       0
// BOTH: error: refuted:
// UNKNOWN: {{^}}warning: unknown: result 0: {{.*}}, and nothing is known of what these ops compute: 'stablehlo.custom_call' at {{.*}}prove.mlir:{{[0-9]+}}:8, 'stablehlo.custom_call' at {{.*}}prove.mlir.tmp.strange:{{[0-9]+}}:8
// OBJECT: "answer": "unknown"
// MISSING: error: the following arguments are required: LOCAL
// TWICE: error: standard input is given as both programs: name a file
// NONE: error: cannot read '{{.*}}prove.mlir.tmp.none': no such file or directory
// ENTRY: prove.mlir:1:1: error: there is no function @third to run; there are @main, @other, @boxed
// FORM: prove.mlir.tmp.local:{{[0-9]+}}:3: error: @main is in the local form, which no longer has the unsharded program
// COUNT: prove.mlir.tmp.local:{{[0-9]+}}:3: error: @main has 1 arguments, and the unsharded program 3: nothing is compared
// CUT: prove.mlir.tmp.cut:{{[0-9]+}}:{{[0-9]+}}: error: expected
// ALONE: <stdin>:{{[0-9]+}}:3: error: @main is the program of device 1 alone: nothing is proven of it; prove the program of all devices, before --pick-device

shard.grid @g(shape = 2)

func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4x8xf32> {
  %0 = math.tanh %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

func.func @other(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4x8xf32> {
  %0 = math.sin %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

func.func @boxed(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.custom_call @strange(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
