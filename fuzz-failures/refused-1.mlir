// refused: 'scf.if' op along control flow edge from Operation scf.yield to Operation scf.if: successor operand type #1 'tensor<1x12x8xi32>' should match successor input type #1 'tensor<1x16x8xi32>'
// pipeline: spmd,lower
shard.grid @g(shape = 1x2)
func.func private @f(%a1: tensor<12x12x4xf32>, %a2: tensor<2x4xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}, %a3: tensor<12x6x4xf32>) -> (tensor<12x6x4xf32>) {
%v4 = linalg.depthwise_conv_1d_nwc_wc {strides = dense<2> : tensor<1xi64>} ins(%a1, %a2 : tensor<12x12x4xf32>, tensor<2x4xf32>) outs(%a3 : tensor<12x6x4xf32>) -> tensor<12x6x4xf32>
return %v4 : tensor<12x6x4xf32>
}

func.func @main(%a5: tensor<6x12x8xi32>, %a7: tensor<i1>, %a9: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1]]>}, %a11: tensor<6x12x12xi1> {mesh.sharding = #mesh.shard<@g, [[], [0], []]>}, %a12: tensor<6x12x1xi1> {mesh.sharding = #mesh.shard<@g, [[], [0], [], {halo = [[], [2, 0], []]}]>}, %a15: tensor<4x8x4xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], [1]]>}, %a16: tensor<3xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}, %a17: tensor<4x6x4xf32>, %a20: tensor<6x12x8xi32> {mesh.sharding = #mesh.shard<@g, [[], [0], [1]]>}, %a21: tensor<12x6x8xi32> {mesh.sharding = #mesh.shard<@g, [[1], [], [0], {halo = [[3, 3], [], [3, 3]]}]>}, %a22: tensor<3xi32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %a23: tensor<12x4x8xi32>, %a26: tensor<8xf32>, %a28: tensor<12x12x12xi32> {mesh.sharding = #mesh.shard<@g, [[0], [], []]>}, %a29: tensor<1xi32>, %a31: tensor<1x12x8xi32>, %a34: tensor<12xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %a36: tensor<4x8x8x3xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], [], []]>}, %a37: tensor<2x1x3x8xf32>, %a38: tensor<24xf32>, %a41: tensor<1x12x8xi32>, %a43: tensor<2x2x4x4x4xi8>, %a44: tensor<4x2x1x1x4xi8> {mesh.sharding = #mesh.shard<@g, [[0], [1], [], [], []]>}, %a45: tensor<2x2x4x4x2xi32> {mesh.sharding = #mesh.shard<@g, [[], [], [], [1], [0]]>}, %a48: tensor<12x8xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}, %a49: tensor<1x1xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], {offsets = [[], [0, 1]]}]>}, %a50: tensor<12x8xf32>) -> (tensor<4x4x8x24xf32>, tensor<1x12x8xi32> {mesh.sharding = #mesh.shard<@g, [[], [], [1, 0]]>}, tensor<2x2x4x4x2xi32>, tensor<12x8xf32>) {
%v6 = tosa.reduce_max %a5 {axis = 0 : i32} : (tensor<6x12x8xi32>) -> tensor<1x12x8xi32>
%p8 = tensor.extract %a7[] : tensor<i1>
%v32:2 = scf.if %p8 -> (tensor<6x12x8xi32>, tensor<1x12x8xi32>) {
%v10 = math.expm1 %a9 : tensor<8xf32>
%v13 = tosa.logical_or %a11, %a12 : (tensor<6x12x12xi1>, tensor<6x12x1xi1>) -> tensor<6x12x12xi1>
%s14 = "mesh.annotate"(%v13) {sharding = #mesh.shard<@g, [[1], [], []]>, required = true, as_result = true} : (tensor<6x12x12xi1>) -> tensor<6x12x12xi1>
%v18 = linalg.pooling_nwc_min ins(%a15, %a16 : tensor<4x8x4xf32>, tensor<3xf32>) outs(%a17 : tensor<4x6x4xf32>) -> tensor<4x6x4xf32>
%l19 = shard.sharding @g split_axes = [[1], [], [0]] : !shard.sharding
%s19 = shard.shard %v18 to %l19 : tensor<4x6x4xf32>
scf.yield %a20, %v6 : tensor<6x12x8xi32>, tensor<1x12x8xi32>
} else {
%v24 = linalg.pooling_nwc_min_unsigned ins(%a21, %a22 : tensor<12x6x8xi32>, tensor<3xi32>) outs(%a23 : tensor<12x4x8xi32>) -> tensor<12x4x8xi32>
%s25 = "mesh.annotate"(%v24) {sharding = #mesh.shard<@g, [[0], [], []]>, required = true, as_result = false} : (tensor<12x4x8xi32>) -> tensor<12x4x8xi32>
%v27 = tosa.floor %a26 : (tensor<8xf32>) -> tensor<8xf32>
%v30 = linalg.pooling_nwc_max_unsigned ins(%a28, %a29 : tensor<12x12x12xi32>, tensor<1xi32>) outs(%a28 : tensor<12x12x12xi32>) -> tensor<12x12x12xi32>
scf.yield %a5, %a31 : tensor<6x12x8xi32>, tensor<1x12x8xi32>
}
%s33 = "mesh.annotate"(%v32#1) {sharding = #mesh.shard<@g, [[], [0], [], {halo = [[], [2, 2], []]}]>, required = true, as_result = true} : (tensor<1x12x8xi32>) -> tensor<1x12x8xi32>
%v35 = "stablehlo.batch_norm_inference"(%a34, %a34, %a34, %a34, %a34) {epsilon = 1.0 : f32, feature_index = 0 : i64} : (tensor<12xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>) -> (tensor<12xf32>)
%n39_c0 = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
%n39_c1 = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
%v39 = tosa.depthwise_conv2d %a36, %a37, %a38, %n39_c0, %n39_c1 {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 1>} : (tensor<4x8x8x3xf32>, tensor<2x1x3x8xf32>, tensor<24xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x4x8x24xf32>
%l40 = shard.sharding @g split_axes = [[], [0, 1], [], []] : !shard.sharding
%s40 = shard.shard %v39 to %l40 annotate_for_users : tensor<4x4x8x24xf32>
%v42 = math.ctpop %a41 : tensor<1x12x8xi32>
%n46_a = arith.constant 1 : i32
%n46_b = arith.constant 2 : i32
%v46 = linalg.conv_2d_nhwgc_gfhwc_q ins(%a43, %a44, %n46_a, %n46_b : tensor<2x2x4x4x4xi8>, tensor<4x2x1x1x4xi8>, i32, i32) outs(%a45 : tensor<2x2x4x4x2xi32>) -> tensor<2x2x4x4x2xi32>
%s47 = "mesh.annotate"(%v46) {sharding = #mesh.shard<@g, [[], [], [1], [0], []]>, required = true, as_result = true} : (tensor<2x2x4x4x2xi32>) -> tensor<2x2x4x4x2xi32>
%v51 = linalg.conv_2d ins(%a48, %a49 : tensor<12x8xf32>, tensor<1x1xf32>) outs(%a50 : tensor<12x8xf32>) -> tensor<12x8xf32>
%s52 = "mesh.annotate"(%v51) {sharding = #mesh.shard<@g, [[], []]>, required = true, as_result = true} : (tensor<12x8xf32>) -> tensor<12x8xf32>
return %s40, %v42, %s47, %s52 : tensor<4x4x8x24xf32>, tensor<1x12x8xi32>, tensor<2x2x4x4x2xi32>, tensor<12x8xf32>
}
