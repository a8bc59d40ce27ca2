// Linear ops work on partial values; what they make is reduced once, where it is small.
//
// RUN: shard-opt %s --sink-reductions | filecheck %s
// RUN: shard-opt %s --sink-reductions="narrow=true" | filecheck %s --check-prefix=NARROW

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @added
// CHECK-NEXT{LITERAL}: %0 = arith.addf %arg0, %arg1 : tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>
// CHECK-NEXT: %1 = mesh.all_reduce %0
// CHECK-NEXT: return %1
func.func @added(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>, %y: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32> {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %1 = "mesh.all_reduce"(%y) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %2 = arith.addf %0, %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// Through a chain: scaling, a transpose, a sum of three terms with one that is replicated.
// CHECK-LABEL: func.func @chain
// CHECK: stablehlo.multiply %arg0, %arg2
// CHECK: stablehlo.transpose
// CHECK: mesh.mask %arg3
// CHECK: arith.addf
// CHECK: arith.subf
// CHECK-NEXT: mesh.all_reduce
// CHECK-NOT: mesh.all_reduce
// CHECK: return
func.func @chain(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>, %y: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>,
                 %factor: tensor<4x4xf32>, %z: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %1 = "mesh.all_reduce"(%y) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %2 = stablehlo.multiply %0, %factor : tensor<4x4xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = arith.addf %3, %z : tensor<4x4xf32>
  %5 = arith.subf %4, %1 : tensor<4x4xf32>
  return %5 : tensor<4x4xf32>
}

// Reduce-scatters alike: of the sum of both.
// CHECK-LABEL: func.func @scattered
// CHECK-NEXT: arith.addf %arg0, %arg1
// CHECK-NEXT: mesh.reduce_scatter
// CHECK-NEXT: return
func.func @scattered(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>, %y: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>> {
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  %1 = "mesh.reduce_scatter"(%y) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  %2 = arith.addf %0, %1 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  return %2 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
}

// Behind a sum over rows there is a row to reduce, not a matrix.
// CHECK-LABEL: func.func @then_summed
// CHECK: stablehlo.multiply %arg0, %arg1
// CHECK: stablehlo.reduce
// CHECK-NEXT: mesh.all_reduce {{.*}} {mesh_axis = [0], reduction = "sum"} : tensor<4xf32
func.func @then_summed(%x: tensor<64x4xf32, #mesh.shard<@g, [[], [], [0]]>>, %y: tensor<64x4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<64x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<64x4xf32>
  %1 = stablehlo.multiply %0, %y : tensor<64x4xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// A maximum goes through a maximum.
// CHECK-LABEL: func.func @maxima
// CHECK-NEXT: arith.maximumf %arg0, %arg1
// CHECK-NEXT: mesh.all_reduce {{.*}} {mesh_axis = [0], reduction = "max"}
func.func @maxima(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], {max = [0]}]>>, %y: tensor<4x4xf32, #mesh.shard<@g, [[], [], {max = [0]}]>>) -> tensor<4x4xf32> {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "max"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], {max = [0]}]>>) -> tensor<4x4xf32>
  %1 = "mesh.all_reduce"(%y) {mesh_axis = [0], reduction = "max"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], {max = [0]}]>>) -> tensor<4x4xf32>
  %2 = arith.maximumf %0, %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// Parts would be rounded: only where that is allowed.
// CHECK-LABEL: func.func @narrowed
// CHECK-NEXT: mesh.all_reduce %arg0
// CHECK-NEXT: arith.truncf
// NARROW-LABEL: func.func @narrowed
// NARROW-NEXT: arith.truncf %arg0
// NARROW-NEXT: mesh.all_reduce
func.func @narrowed(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf16> {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %1 = arith.truncf %0 : tensor<4x4xf32> to tensor<4x4xf16>
  return %1 : tensor<4x4xf16>
}

// Not linear: a product of two sums, an exponential, an integer quotient, a sum of maxima.
// CHECK-LABEL: func.func @not_linear
// CHECK-COUNT-4: mesh.all_reduce %arg
// CHECK-NOT: mesh.all_reduce
func.func @not_linear(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>, %y: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>,
                      %n: tensor<4x4xi32, #mesh.shard<@g, [[], [], [0]]>>, %m: tensor<4x4xf32, #mesh.shard<@g, [[], [], {max = [0]}]>>,
                      %two: tensor<4x4xi32>) -> (tensor<4x4xf32>, tensor<4x4xi32>, tensor<4x4xf32>) {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %1 = "mesh.all_reduce"(%y) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %2 = arith.mulf %0, %1 : tensor<4x4xf32>
  %3 = math.exp %2 : tensor<4x4xf32>
  %4 = "mesh.all_reduce"(%n) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xi32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xi32>
  %5 = arith.divsi %4, %two : tensor<4x4xi32>
  %6 = "mesh.all_reduce"(%m) {mesh_axis = [0], reduction = "max"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], {max = [0]}]>>) -> tensor<4x4xf32>
  %7 = arith.addf %6, %6 : tensor<4x4xf32>
  return %3, %5, %7 : tensor<4x4xf32>, tensor<4x4xi32>, tensor<4x4xf32>
}

// The sums are used elsewhere too: nothing would be saved.
// CHECK-LABEL: func.func @used_elsewhere
// CHECK-NEXT: mesh.all_reduce %arg0
// CHECK-NEXT: mesh.all_reduce %arg1
// CHECK-NEXT: arith.addf
func.func @used_elsewhere(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>, %y: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %1 = "mesh.all_reduce"(%y) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %2 = arith.addf %0, %1 : tensor<4x4xf32>
  return %0, %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
