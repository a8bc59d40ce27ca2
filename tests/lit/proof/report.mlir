// `--prove` has the report say what is proven; a refutation is an error besides.
//
// RUN: shard-report %s --prove 2>&1 | filecheck %s
// RUN: shard-report %s --prove --json | filecheck %s --check-prefix=JSON
// RUN: not shard-report %s --prove --load-plugin %S/Inputs/wrong_rule.py --html %t.html 2>%t.err | filecheck %s --check-prefix=REFUTED
// RUN: filecheck %s --check-prefix=ERROR --input-file=%t.err
// RUN: filecheck %s --check-prefix=PAGE --input-file=%t.html
// RUN: shard-opt %s --spmd -o %t.local
// RUN: not shard-report %t.local --prove 2>&1 | filecheck %s --check-prefix=LOCAL
// RUN: shard-opt %s --spmd --lower | not shard-report - --prove 2>&1 | filecheck %s --check-prefix=LOWERED
// RUN: not shard-report %s --prove --compare %s 2>&1 | filecheck %s --check-prefix=BOTH

// CHECK: @main on 2 devices
// CHECK-NEXT: {{^}}proven: every device computes the unsharded program, for all inputs{{$}}
// JSON: "proof": {
// JSON-NEXT: "answer": "proven",
// REFUTED: @main on 2 devices
// REFUTED-NEXT: {{^}}refuted: result 0: the device at [0] has another number at [0] than
// REFUTED: compute
// ERROR: {{^}}error: refuted: result 0: the device at [0] has another number at [0] than
// PAGE: "proof":{"answer":"refuted","text":"refuted: result 0: the device at
// LOCAL: report.mlir.tmp.local:{{[0-9]+}}:3: error: @main is in the local form, which no longer has the unsharded program
// LOWERED: <stdin>:{{[0-9]+}}:{{[0-9]+}}: error: @main is in the lowered form, which no longer has the unsharded program
// BOTH: error: --compare is given together with --prove: use one of them

shard.grid @g(shape = 2)
func.func @main(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<8xf32>
  return %0 : tensor<8xf32>
}
