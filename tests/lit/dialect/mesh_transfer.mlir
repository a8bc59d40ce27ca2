// A box of a tensor is passed on to another stage, or a tensor is put into one that is there.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s
// RUN: shard-opt %s --mesh-pretty | shard-opt | filecheck %s
// RUN: shard-opt %s --mesh-pretty | filecheck %s --check-prefix=PRETTY
// RUN: shard-opt %s --erase-sharding | filecheck %s --check-prefix=ERASED

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "second", cluster = @g, offsets = [1], sizes = [1]} : () -> ()

// CHECK-LABEL: func.func @there_and_back
// PRETTY-LABEL: func.func @there_and_back
// ERASED-LABEL: func.func @there_and_back
func.func @there_and_back(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  // CHECK: %[[PART:.*]] = mesh.transfer %arg0 {cluster = @second, offsets = [4, 1]} : tensor<8x6xf32> -> tensor<2x5xf32>
  // PRETTY: %[[PART:.*]] = mesh.transfer %arg0 {cluster = @second, offsets = [4, 1]} : tensor<8x6xf32> -> tensor<2x5xf32>
  // ERASED: %[[PART:.*]] = tensor.extract_slice %arg0[4, 1] [2, 5] [1, 1]
  %0 = "mesh.transfer"(%x) {cluster = @second, offsets = [4, 1]} : (tensor<8x6xf32>) -> tensor<2x5xf32>
  // CHECK: mesh.transfer %[[PART]], %arg0 {cluster = @g, offsets = [0, 0]} : tensor<2x5xf32>, tensor<8x6xf32> -> tensor<8x6xf32>
  // PRETTY: mesh.transfer %[[PART]], %arg0 {cluster = @g, offsets = [0, 0]} : tensor<2x5xf32>, tensor<8x6xf32> -> tensor<8x6xf32>
  // ERASED: tensor.insert_slice %[[PART]] into %arg0[0, 0] [2, 5] [1, 1]
  %1 = "mesh.transfer"(%0, %x) {cluster = @g, offsets = [0, 0]} : (tensor<2x5xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  return %1 : tensor<8x6xf32>
}
