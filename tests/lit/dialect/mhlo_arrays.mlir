// The RFC's ops are MHLO's, whose lists of integers are dense tensors: StableHLO has arrays for these.
//
// RUN: shard-opt %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8xf32>, %i: tensor<i64>, %y: tensor<1x3x4x4xf32>, %k: tensor<2x3x3x3xf32>) {
  // CHECK: stablehlo.dynamic_slice %arg0, %arg1, sizes = [4]
  %0 = "mhlo.dynamic_slice"(%x, %i) {slice_sizes = dense<[4]> : tensor<1xi64>} : (tensor<8xf32>, tensor<i64>) -> tensor<4xf32>
  // CHECK: stablehlo.broadcast_in_dim %arg1, dims = []
  %1 = "mhlo.broadcast_in_dim"(%i) {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i64>) -> tensor<2xi64>
  // CHECK: stablehlo.convolution{{.*}}stride = [1, 1]{{.*}}reverse = [true, false]
  %2 = "mhlo.convolution"(%y, %k) {batch_group_count = 1 : i64, feature_group_count = 1 : i64,
      dimension_numbers = #mhlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, window_strides = dense<1> : tensor<2xi64>,
      window_reversal = dense<[true, false]> : tensor<2xi1>, padding = dense<1> : tensor<2x2xi64>}
      : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  // CHECK: stablehlo.reduce(%arg2 init: %{{.*}}) {{.*}} across dimensions = [1, 3]
  %z = mhlo.constant dense<0.0> : tensor<f32>
  %3 = "mhlo.reduce"(%y, %z) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %4 = mhlo.add %a, %b : tensor<f32>
    "mhlo.return"(%4) : (tensor<f32>) -> ()
  }) {dimensions = dense<[1, 3]> : tensor<2xi64>} : (tensor<1x3x4x4xf32>, tensor<f32>) -> tensor<1x4xf32>
  // CHECK: linalg.conv_1d_ncw_fcw {{.*}}strides = dense<1> : {{tensor|vector}}<1xi64>
  %e = tensor.empty() : tensor<1x2x2xf32>
  %f = tensor.empty() : tensor<1x3x4xf32>
  %g = tensor.empty() : tensor<2x3x3xf32>
  %5 = linalg.conv_1d_ncw_fcw {dilations = dense<1> : tensor<1xi64>, strides = dense<1> : tensor<1xi64>}
      ins(%f, %g : tensor<1x3x4xf32>, tensor<2x3x3xf32>) outs(%e : tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  return
}

// XLA writes a ragged product as MHLO's, and which value of its own a result is.
//
// CHECK-LABEL: func.func @as_xla_writes_it
func.func @as_xla_writes_it(%x: tensor<11x5xf32>, %y: tensor<3x5x7xf32>, %sizes: tensor<3xi64>) -> tensor<11x7xf32> {
  // CHECK: "chlo.ragged_dot"({{.*}}#chlo<precision DEFAULT>{{.*}}#chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>
  %0 = "mhlo.ragged_dot"(%x, %y, %sizes) <{precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>],
      ragged_dot_dimension_numbers = #mhlo.ragged_dot<dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [1],
      rhs_contracting_dimensions = [1]>, lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}>
      : (tensor<11x5xf32>, tensor<3x5x7xf32>, tensor<3xi64>) -> tensor<11x7xf32>
  // CHECK: stablehlo.negate %0 : tensor
  %1 = mhlo.negate %0 {mhlo.original_value = #mhlo.original_value<false, [<[], <"dot.1", []>>]>} : tensor<11x7xf32>
  // CHECK: stablehlo.abs %1 {a = 1 : i64} : tensor
  %2 = mhlo.abs %1 {a = 1, mhlo.original_value = #mhlo.original_value<false, [<[], <"dot.2", []>>]>} : tensor<11x7xf32>
  // CHECK: stablehlo.sine %2 {b = 2 : i64} : tensor
  %3 = mhlo.sine %2 {mhlo.original_value = #mhlo.original_value<false, [<[], <"dot.3", []>>]>, b = 2} : tensor<11x7xf32>
  return %3 : tensor<11x7xf32>
}
