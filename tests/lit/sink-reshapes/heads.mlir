// Heads merged around an elementwise op: four heads on eight devices need no communication, because
// nothing is merged any more. A shard of the merged dimension would be strided.
//
// RUN: shard-opt %s --sink-reshapes | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

// CHECK-LABEL: func.func @main
// CHECK: [[SPLIT:%.*]] = stablehlo.reshape %arg0
// CHECK-NEXT: [[APART:%.*]] = stablehlo.transpose [[SPLIT]]
// CHECK-NEXT: [[TANH:%.*]] = stablehlo.tanh [[APART]] : tensor<8x4x8x16xf32>
// CHECK-NEXT: [[BIAS:%.*]] = stablehlo.reshape %arg1 : (tensor<32x8x16xf32>) -> tensor<8x4x8x16xf32>
// CHECK-NEXT: [[SUM:%.*]] = stablehlo.add [[TANH]], [[BIAS]] : tensor<8x4x8x16xf32>
// CHECK-NEXT: stablehlo.transpose [[SUM]]
// CHECK-NEXT: stablehlo.reshape
// CHECK-NEXT: return
// LOCAL-NOT: shard.all_gather
// NUMBERS: no communication
// NUMBERS: check passed
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [8]} : () -> ()
func.func @main(%x: tensor<8x8x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [0]]>},
                %bias: tensor<32x8x16xf32>)
    -> (tensor<8x8x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [0]]>}) {
  %0 = stablehlo.reshape %x : (tensor<8x8x64xf32>) -> tensor<8x8x4x16xf32>
  %1 = stablehlo.transpose %0, dims = [0, 2, 1, 3] : (tensor<8x8x4x16xf32>) -> tensor<8x4x8x16xf32>
  %2 = stablehlo.reshape %1 : (tensor<8x4x8x16xf32>) -> tensor<32x8x16xf32>
  %3 = stablehlo.tanh %2 : tensor<32x8x16xf32>
  %4 = stablehlo.add %3, %bias : tensor<32x8x16xf32>
  %5 = stablehlo.reshape %4 : (tensor<32x8x16xf32>) -> tensor<8x4x8x16xf32>
  %6 = stablehlo.transpose %5, dims = [0, 2, 1, 3] : (tensor<8x4x8x16xf32>) -> tensor<8x8x4x16xf32>
  %7 = stablehlo.reshape %6 : (tensor<8x8x4x16xf32>) -> tensor<8x8x64xf32>
  return %7 : tensor<8x8x64xf32>
}
