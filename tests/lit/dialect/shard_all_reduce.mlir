// Every kind of reduction; its type is the operand's, or a wider one of the same kind.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @kinds
func.func @kinds(%x: tensor<4x8xf32>) {
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [1, 0] reduction = max
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %0 = shard.all_reduce %x on @g grid_axes = [1, 0] reduction = max : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [1, 0] reduction = min
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = shard.all_reduce %x on @g grid_axes = [1, 0] reduction = min : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [1, 0] reduction = product
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = shard.all_reduce %x on @g grid_axes = [1, 0] reduction = product : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [1, 0] reduction = average
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %3 = shard.all_reduce %x on @g grid_axes = [1, 0] reduction = average : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [1, 0] reduction = generic
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %4 = shard.all_reduce %x on @g grid_axes = [1, 0] reduction = generic : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @sum_is_the_default
func.func @sum_is_the_default(%x: tensor<4x8xf32>) {
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [1]
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %0 = shard.all_reduce %x on @g grid_axes = [1] reduction = sum : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @bits
func.func @bits(%x: tensor<4xi8>) {
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [0] reduction = bitwise_and
  // CHECK-SAME: tensor<4xi8> -> tensor<4xi8>
  %0 = shard.all_reduce %x on @g grid_axes = [0] reduction = bitwise_and : tensor<4xi8> -> tensor<4xi8>
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [0] reduction = bitwise_or
  // CHECK-SAME: tensor<4xi8> -> tensor<4xi8>
  %1 = shard.all_reduce %x on @g grid_axes = [0] reduction = bitwise_or : tensor<4xi8> -> tensor<4xi8>
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [0] reduction = bitwise_xor
  // CHECK-SAME: tensor<4xi8> -> tensor<4xi8>
  %2 = shard.all_reduce %x on @g grid_axes = [0] reduction = bitwise_xor : tensor<4xi8> -> tensor<4xi8>
  return
}

// CHECK-LABEL: func.func @wider_floats
func.func @wider_floats(%x: tensor<4xbf16>) {
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [0]
  // CHECK-SAME: tensor<4xbf16> -> tensor<4xf32>
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xbf16> -> tensor<4xf32>
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [0] reduction = max
  // CHECK-SAME: tensor<4xbf16> -> tensor<4xf64>
  %1 = shard.all_reduce %x on @g grid_axes = [0] reduction = max : tensor<4xbf16> -> tensor<4xf64>
  return
}

// CHECK-LABEL: func.func @wider_integers
func.func @wider_integers(%x: tensor<4xi8>) {
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [0]
  // CHECK-SAME: tensor<4xi8> -> tensor<4xi32>
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xi8> -> tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @wider_unsigned
func.func @wider_unsigned(%x: tensor<4xui8>) {
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [0]
  // CHECK-SAME: tensor<4xui8> -> tensor<4xui32>
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xui8> -> tensor<4xui32>
  return
}

// CHECK-LABEL: func.func @wider_complex
func.func @wider_complex(%x: tensor<4xcomplex<f32>>) {
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [0]
  // CHECK-SAME: tensor<4xcomplex<f32>> -> tensor<4xcomplex<f64>>
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xcomplex<f32>> -> tensor<4xcomplex<f64>>
  return
}

// CHECK-LABEL: func.func @scalar
func.func @scalar(%x: tensor<f32>) {
  // CHECK: shard.all_reduce %arg0 on @open grid_axes = [0]
  // CHECK-SAME: tensor<f32> -> tensor<f32>
  %0 = shard.all_reduce %x on @open grid_axes = [0] : tensor<f32> -> tensor<f32>
  return
}

// CHECK-LABEL: func.func @buffer
func.func @buffer(%x: memref<4x?xf32>) {
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [0]
  // CHECK-SAME: memref<4x?xf32> -> memref<4x?xf64>
  %0 = shard.all_reduce %x on @g grid_axes = [0] : memref<4x?xf32> -> memref<4x?xf64>
  return
}
