// A sharding in a type of the annotated form is an annotation; the propagated form is plain.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

shard.grid @g(shape = 2)

// CHECK{LITERAL}: func.func @main(%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
func.func @main(%x: tensor<4x8xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<4x8xf32, #mesh.shard<@g, [[0]]>> {
  // CHECK: math.exp
  // CHECK-SAME: : tensor<4x8xf32>
  %0 = math.exp %x : tensor<4x8xf32, #mesh.shard<@g, [[0]]>>
  return %0 : tensor<4x8xf32, #mesh.shard<@g, [[0]]>>
}
// NUMBERS: no communication
// NUMBERS: check passed
