// refused: no version of the value leads to [[], [0]]
// pipeline: propagate{strategy=user-priority},canonicalize,cse,materialize,canonicalize,cse,partition,canonicalize,cse,lower
shard.grid @g(shape = 1x2)
func.func @main(%a1: tensor<12x12xf32>, %a2: tensor<i1>, %a4: tensor<12x6x6x12xf32>, %a7: tensor<8x12x12xi1>, %a10: tensor<6x6x8xi32>, %a15: tensor<12x8x12xf32>, %a18: tensor<12x6x6xf32>, %a19: tensor<1xf32>, %a24: tensor<2x4x6x4x2xf32>, %a25: tensor<3x3x3x2x4xf32>, %a26: tensor<2x2x4x2x2x4xf32>, %a28: tensor<4x16x8x3xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [1, 0], []]>}, %a29: tensor<4x2x1x3xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], [], []]>}, %a30: tensor<4xf32>, %a33: tensor<4x16x8x4xf32>, %a35: tensor<3x3x3x2x4xf32>) -> (tensor<4x8x8x4xf32>, tensor<2x2x4x2x2x4xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [], [], [], []]>}, tensor<12x12xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}) {
%p3 = tensor.extract %a2[] : tensor<i1>
%v32 = scf.if %p3 -> (tensor<12x12xf32>) {
%n5_z = arith.constant 0.0 : f32
%n5_e = tensor.empty() : tensor<6x6x1x1x12x12xf32>
%n5_f = linalg.fill ins(%n5_z : f32) outs(%n5_e : tensor<6x6x1x1x12x12xf32>) -> tensor<6x6x1x1x12x12xf32>
%v5 = linalg.winograd_input_transform fmr(F_4_3) ins(%a4 : tensor<12x6x6x12xf32>) outs(%n5_f : tensor<6x6x1x1x12x12xf32>) -> tensor<6x6x1x1x12x12xf32>
%p6 = tensor.extract %a2[] : tensor<i1>
%v22:2 = scf.if %p6 -> (tensor<12x12xf32>, tensor<12x12xf32>) {
%v8 = tosa.logical_not %a7 : (tensor<8x12x12xi1>) -> tensor<8x12x12xi1>
%s9 = "mesh.annotate"(%v8) {sharding = #mesh.shard<@g, [[0], [], []]>, required = true, as_result = false} : (tensor<8x12x12xi1>) -> tensor<8x12x12xi1>
%v11 = "stablehlo.popcnt"(%a10) : (tensor<6x6x8xi32>) -> (tensor<6x6x8xi32>)
%v12 = tosa.log %a1 : (tensor<12x12xf32>) -> tensor<12x12xf32>
scf.yield %v12, %v12 : tensor<12x12xf32>, tensor<12x12xf32>
} else {
%v13 = tosa.logical_not %a7 : (tensor<8x12x12xi1>) -> tensor<8x12x12xi1>
%s14 = "mesh.annotate"(%v13) {sharding = #mesh.shard<@g, [[0], [], []]>, required = true, as_result = false} : (tensor<8x12x12xi1>) -> tensor<8x12x12xi1>
%n16_s = arith.constant dense<[1, 12, 8, 12]> : tensor<4xindex>
%v16 = tensor.reshape %a15(%n16_s) : (tensor<12x8x12xf32>, tensor<4xindex>) -> tensor<1x12x8x12xf32>
%s17 = "mesh.annotate"(%v16) {sharding = #mesh.shard<@g, [[], [], [0], []]>, required = true, as_result = false} : (tensor<1x12x8x12xf32>) -> tensor<1x12x8x12xf32>
%v20 = linalg.pooling_nwc_min ins(%a18, %a19 : tensor<12x6x6xf32>, tensor<1xf32>) outs(%a18 : tensor<12x6x6xf32>) -> tensor<12x6x6xf32>
%s21 = "mesh.annotate"(%v20) {sharding = #mesh.shard<@g, [[0], [], [1]]>, required = true, as_result = false} : (tensor<12x6x6xf32>) -> tensor<12x6x6xf32>
scf.yield %a1, %a1 : tensor<12x12xf32>, tensor<12x12xf32>
}
%l23 = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
%s23 = shard.shard %v22#1 to %l23 annotate_for_users : tensor<12x12xf32>
%v27 = linalg.depthwise_conv_3d_ndhwc_dhwcm ins(%a24, %a25 : tensor<2x4x6x4x2xf32>, tensor<3x3x3x2x4xf32>) outs(%a26 : tensor<2x2x4x2x2x4xf32>) -> tensor<2x2x4x2x2x4xf32>
scf.yield %s23 : tensor<12x12xf32>
} else {
%n31_c0 = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
%n31_c1 = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
%v31 = tosa.conv2d %a28, %a29, %a30, %n31_c0, %n31_c1 {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 1>} : (tensor<4x16x8x3xf32>, tensor<4x2x1x3xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x8x8x4xf32>
scf.yield %a1 : tensor<12x12xf32>
}
%n34_c0 = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
%n34_c1 = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
%v34 = tosa.avg_pool2d %a33, %n34_c0, %n34_c1 {acc_type = f32, kernel = array<i64: 3, 3>, pad = array<i64: 1, 0, 1, 1>, stride = array<i64: 2, 1>} : (tensor<4x16x8x4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x8x8x4xf32>
%v36 = linalg.depthwise_conv_3d_ndhwc_dhwcm ins(%a24, %a35 : tensor<2x4x6x4x2xf32>, tensor<3x3x3x2x4xf32>) outs(%a26 : tensor<2x2x4x2x2x4xf32>) -> tensor<2x2x4x2x2x4xf32>
%v37 = arith.addf %v32, %v32 : tensor<12x12xf32>
return %v34, %v36, %v37 : tensor<4x8x8x4xf32>, tensor<2x2x4x2x2x4xf32>, tensor<12x12xf32>
}
