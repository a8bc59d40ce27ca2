// What a program communicates, why, what would remove it, and what another sharding would change.
//
// RUN: shard-report %s | filecheck %s
// RUN: shard-report %s --suggest | filecheck %s --check-prefix=SUGGEST
// RUN: shard-report %s --json | filecheck %s --check-prefix=JSON
// RUN: shard-report %s '--what-if=w=[[], [0]]' | filecheck %s --check-prefix=WHATIF
// RUN: shard-report %s --compare %s | filecheck %s --check-prefix=SAME
// RUN: not shard-report %s '--what-if=v=[]' 2>&1 | filecheck %s --check-prefix=NOBODY
// RUN: not shard-report %s '--what-if=w' 2>&1 | filecheck %s --check-prefix=UNREAD
// RUN: not shard-report %s --what-if=w=[] --suggest 2>&1 | filecheck %s --check-prefix=BOTH

shard.grid @g(shape = 2)

// CHECK: @main on 2 devices
// CHECK: #1 {{ *}}all_reduce {{ *}}0 {{ *}}2 {{ *}}4x6xf32 {{ *}}4x6xf32 {{ *}}96 {{.*}}
// CHECK: #1 all_reduce along 0: 96 bytes, for {{.*}}report.mlir:[[# @LINE + 10]]:3
// CHECK: 'stablehlo.dot_general' op makes the value as {{\[\[\], \[\]\]}}, partial sums along [0]
// CHECK: report.mlir:[[# @LINE + 4]]:17: dimension 1 along [0]: annotated
// SUGGEST: report.mlir:[[# @LINE + 3]]:17: without it: x: {{\[\[\], \[0\]\] -> \[\[\], \[\]\]}}: -96 bytes, -1.9 microseconds, +64 bytes of memory
// JSON: "schema": 1
// JSON: "kind": "all_reduce"
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %w: tensor<8x6xf32>)
    -> (tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// WHATIF: bytes {{ *}}96 {{ *}}112 {{ *}}+16
// SAME: bytes {{ *}}96 {{ *}}96 {{ *}}+0
// NOBODY: {{^}}error: --what-if=v={{.*}}: nothing of @main is called 'v'; its arguments and results are x, w, result0
// UNREAD: {{^}}error: --what-if=w: cannot read 'w': write NAME={{\[\[\], \[0\]\]}}, with a list of grid axes for each dimension
// BOTH: error: --what-if is given together with --suggest: use one of them

// RUN: shard-report %s --show x | filecheck %s --check-prefix=SHOW
// RUN: not shard-report %s --show y 2>&1 | filecheck %s --check-prefix=MISSING
// SHOW: x: 4x8 as {{\[\[\], \[0\]\]}} on @g of 2 devices
// SHOW: 0..4{{.*}}0{{.*}}1
// MISSING: {{^}}error: --show=y: there is no value 'y' with a sharding in @main
