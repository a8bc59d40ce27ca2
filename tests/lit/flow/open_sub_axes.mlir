// An argument or result that is open at a sub-axis is split further along the rest of that axis.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [8]} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-SAME{LITERAL}: %arg0: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)4"], []]>}
// CHECK-SAME{LITERAL}: -> (tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)4"], []]>},
// CHECK-SAME{LITERAL}: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)2"], []]>})
// NUMBERS: check passed
func.func @main(%x: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)4"], [], {open = [0]}]>})
    -> (tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)2"], [], {open = [0]}]>},
        tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)2"], []]>}) {
  %0 = math.tanh %x : tensor<16x8xf32>
  %1 = math.exp %x : tensor<16x8xf32>
  return %0, %1 : tensor<16x8xf32>, tensor<16x8xf32>
}
