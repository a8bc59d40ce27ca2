// What is computed from an argument of known size is of known size, in functions that are called, too.
//
// RUN: shard-opt %s --specialize='entry=main shapes={4x8}' | filecheck %s
// RUN: shard-run %s --shapes=4x8 --check | filecheck %s --check-prefix=RAN
// RUN: shard-run %s --shapes=5x8 --check | filecheck %s --check-prefix=RAN
// RUN: shard-run %s --shapes=1x8 --check | filecheck %s --check-prefix=RAN

// RAN: check passed

shard.grid @g(shape = 2x2)

// Called with one shape: it has it. Called with two: a copy has the second.
// CHECK: func.func private @once(%arg0: tensor<4x16xf32>) -> tensor<4x16xf32>
func.func private @once(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // CHECK: math.exp %arg0 : tensor<4x16xf32>
  %0 = math.exp %x : tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}
// CHECK: func.func private @twice(%arg0: tensor<4x16xf32>) -> tensor<4x16xf32>
// CHECK: func.func private @twice_1(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32>
func.func private @twice(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %0 = arith.addf %x, %x : tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK: func.func @main(%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [{{\[}}0], []]>},
// CHECK-SAME: -> (tensor<4xf32>, tensor<8x16xf32>)
func.func @main(%x: tensor<?x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
                %w: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>}) -> (tensor<?xf32>, tensor<?x16xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %d = tensor.dim %x, %c0 : tensor<?x8xf32>
  // CHECK: tensor.empty() : tensor<4x16xf32>
  %0 = tensor.empty(%d) : tensor<?x16xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: linalg.matmul
  // CHECK-SAME: -> tensor<4x16xf32>
  %2 = linalg.matmul ins(%x, %w : tensor<?x8xf32>, tensor<8x16xf32>) outs(%1 : tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: call @once(%{{.*}}) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %3 = func.call @once(%2) : (tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: call @twice(%{{.*}}) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %4 = func.call @twice(%3) : (tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: tensor.concat dim(0) {{.*}} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  %5 = tensor.concat dim(0) %3, %4 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: call @twice_1(%{{.*}}) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %6 = func.call @twice(%5) : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %d4 = tensor.dim %4, %c0 : tensor<?x16xf32>
  %7 = tensor.empty(%d4) : tensor<?xf32>
  %8 = linalg.fill ins(%zero : f32) outs(%7 : tensor<?xf32>) -> tensor<?xf32>
  // CHECK: linalg.reduce {{.*}} ins(%{{.*}} : tensor<4x16xf32>) outs(%{{.*}} : tensor<4xf32>)
  %9 = linalg.reduce {arith.addf} ins(%4 : tensor<?x16xf32>) outs(%8 : tensor<?xf32>) dimensions = [1]
  return %9, %6 : tensor<?xf32>, tensor<?x16xf32>
}
