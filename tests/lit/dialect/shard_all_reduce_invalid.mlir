// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_out_of_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index 2 is out of bounds. The referenced grid "g" is of rank 2}}
  %0 = shard.all_reduce %x on @g grid_axes = [2] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index -1 is out of bounds}}
  %0 = shard.all_reduce %x on @g grid_axes = [-1] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_twice(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Grid axes contains duplicate elements}}
  %0 = shard.all_reduce %x on @g grid_axes = [0, 0] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @size(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{requires the same shape for all operands and results}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4x8xf32> -> tensor<4x9xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @float_to_integer(%x: tensor<4xf32>) {
  // expected-error@+1 {{'shard.all_reduce' op reduces f32 to i8: expected the same type, or a wider one of its kind}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xi8>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @integer_to_float(%x: tensor<4xi8>) {
  // expected-error@+1 {{'shard.all_reduce' op reduces i8 to f32: expected the same type, or a wider one of its kind}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xi8> -> tensor<4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @narrowed(%x: tensor<4xf64>) {
  // expected-error@+1 {{'shard.all_reduce' op reduces f64 to f32: expected the same type, or a wider one of its kind}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xf64> -> tensor<4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @narrowed_integers(%x: tensor<4xi32>) {
  // expected-error@+1 {{'shard.all_reduce' op reduces i32 to i8: expected the same type, or a wider one of its kind}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xi32> -> tensor<4xi8>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @as_wide_but_other_values(%x: tensor<4xf16>) {
  // expected-error@+1 {{'shard.all_reduce' op reduces f16 to bf16: expected the same type, or a wider one of its kind}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xf16> -> tensor<4xbf16>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @signedness(%x: tensor<4xui8>) {
  // expected-error@+1 {{'shard.all_reduce' op reduces ui8 to i32: expected the same type, or a wider one of its kind}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xui8> -> tensor<4xi32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @complex(%x: tensor<4xcomplex<f64>>) {
  // expected-error@+1 {{'shard.all_reduce' op reduces complex<f64> to complex<f32>: expected the same type, or a wider one of its kind}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xcomplex<f64>> -> tensor<4xcomplex<f32>>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @and_of_floats(%x: tensor<4xf32>) {
  // expected-error@+1 {{'shard.all_reduce' op has reduction bitwise_and of f32: expected integers}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] reduction = bitwise_and : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @or_of_floats(%x: tensor<4xbf16>) {
  // expected-error@+1 {{'shard.all_reduce' op has reduction bitwise_or of bf16: expected integers}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] reduction = bitwise_or : tensor<4xbf16> -> tensor<4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @xor_of_complex(%x: tensor<4xcomplex<f32>>) {
  // expected-error@+1 {{'shard.all_reduce' op has reduction bitwise_xor of complex<f32>: expected integers}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] reduction = bitwise_xor : tensor<4xcomplex<f32>> -> tensor<4xcomplex<f32>>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @unknown_kind(%x: tensor<4xf32>) {
  // expected-error@+1 {{custom op 'shard.all_reduce'}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] reduction = maximum : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @buffer(%x: memref<4xf32>) {
  // expected-error@+1 {{'shard.all_reduce' op reduces f32 to i32: expected the same type, or a wider one of its kind}}
  %0 = shard.all_reduce %x on @g grid_axes = [0] : memref<4xf32> -> memref<4xi32>
  return
}
