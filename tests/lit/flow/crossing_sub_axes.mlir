// Sub-axes that no refinement of the axis has together do not meet on one tensor: of 12 devices the
// major 2 against the 3 behind the major 4 may, but not the 2 behind the major 3.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check --entry=apart | filecheck %s --check-prefix=NUMBERS

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [12]} : () -> ()

// CHECK-LABEL: func.func @crossing
// CHECK: math.tanh
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@g, [[], ["0:(3)2"]]>]
func.func @crossing(%x: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)2"], []]>})
    -> (tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[], ["0:(3)2"]]>}) {
  %0 = math.tanh %x : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @apart
// CHECK: math.tanh
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@g, [["0:(1)2"], ["0:(4)3"]]>]
// NUMBERS: check passed
func.func @apart(%x: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)2"], []]>})
    -> (tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[], ["0:(4)3"]]>}) {
  %0 = math.tanh %x : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
