// A `dynamic_iota` whose type is known, as torch-mlir writes `arange`, is an `iota`; another stays.
//
// RUN: shard-opt %s --import | filecheck %s
// RUN: shard-opt %s --propagate 2>&1 | filecheck %s --check-prefix=SPLIT

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @known
// CHECK: stablehlo.iota dim = 0 : tensor<8xi64>
// SPLIT-NOT: warning
// SPLIT: stablehlo.iota dim = 0
func.func @known(%x: tensor<8xi64> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %size: tensor<1xi64>) -> tensor<8xi64> {
  %0 = stablehlo.dynamic_iota %size, dim = 0 : (tensor<1xi64>) -> tensor<8xi64>
  %1 = stablehlo.add %x, %0 : tensor<8xi64>
  return %1 : tensor<8xi64>
}

// CHECK-LABEL: func.func @unknown
// CHECK: stablehlo.dynamic_iota
func.func @unknown(%size: tensor<1xi64>) -> tensor<?xi64> {
  %0 = stablehlo.dynamic_iota %size, dim = 0 : (tensor<1xi64>) -> tensor<?xi64>
  return %0 : tensor<?xi64>
}
