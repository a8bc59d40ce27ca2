// The elements of a tensor move along a dimension, and come back at the other end.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s
// RUN: shard-opt %s --erase-sharding | filecheck %s --check-prefix=ERASED

// CHECK-LABEL: func.func @back
// ERASED-LABEL: func.func @back
func.func @back(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  // CHECK: mesh.roll %arg0 {by = -2 : i64, tensor_axis = 0 : i64} : tensor<8x6xf32> -> tensor<8x6xf32>
  // ERASED: %[[FIRST:.*]] = tensor.extract_slice %arg0[2, 0] [6, 6] [1, 1]
  // ERASED: %[[ONE:.*]] = tensor.insert_slice %[[FIRST]] into %{{.*}}[0, 0] [6, 6] [1, 1]
  // ERASED: %[[LAST:.*]] = tensor.extract_slice %arg0[0, 0] [2, 6] [1, 1]
  // ERASED: tensor.insert_slice %[[LAST]] into %[[ONE]][6, 0] [2, 6] [1, 1]
  %0 = "mesh.roll"(%x) {tensor_axis = 0 : i64, by = -2 : i64} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
