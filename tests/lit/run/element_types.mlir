// Every element type that can be run, through a gather and a sum.
//
// RUN: shard-run %s --check --entry f16 | filecheck %s
// RUN: shard-run %s --check --entry bf16 | filecheck %s
// RUN: shard-run %s --check --entry f64 | filecheck %s
// RUN: shard-run %s --check --entry i8 | filecheck %s
// RUN: shard-run %s --check --entry i32 | filecheck %s
// RUN: shard-run %s --check --entry i1 | filecheck %s

// CHECK: check passed

shard.grid @g(shape = 2x2)

func.func @f16(%x: tensor<8x8xf16, #mesh.shard<@g, [[1], [0]]>>) -> tensor<8xf16> {
  %zero = arith.constant dense<0.0> : tensor<8xf16>
  %0 = linalg.reduce {arith.addf} ins(%x : tensor<8x8xf16, #mesh.shard<@g, [[1], [0]]>>)
                                  outs(%zero : tensor<8xf16>) dimensions = [1]
  return %0 : tensor<8xf16>
}
func.func @bf16(%x: tensor<8x8xbf16, #mesh.shard<@g, [[1], [0]]>>) -> tensor<8xbf16> {
  %zero = arith.constant dense<0.0> : tensor<8xbf16>
  %0 = linalg.reduce {arith.addf} ins(%x : tensor<8x8xbf16, #mesh.shard<@g, [[1], [0]]>>)
                                  outs(%zero : tensor<8xbf16>) dimensions = [1]
  return %0 : tensor<8xbf16>
}
func.func @f64(%x: tensor<8x8xf64, #mesh.shard<@g, [[1], [0]]>>) -> tensor<8xf64> {
  %two = arith.constant dense<2.0> : tensor<8xf64>
  %0 = linalg.reduce {arith.addf} ins(%x : tensor<8x8xf64, #mesh.shard<@g, [[1], [0]]>>)
                                  outs(%two : tensor<8xf64>) dimensions = [1]
  return %0 : tensor<8xf64>
}
func.func @i8(%x: tensor<8x8xi8, #mesh.shard<@g, [[1], [0]]>>) -> tensor<8xi8> {
  %zero = arith.constant dense<0> : tensor<8xi8>
  %0 = linalg.reduce {arith.addi} ins(%x : tensor<8x8xi8, #mesh.shard<@g, [[1], [0]]>>)
                                  outs(%zero : tensor<8xi8>) dimensions = [1]
  return %0 : tensor<8xi8>
}
func.func @i32(%x: tensor<8x8xi32, #mesh.shard<@g, [[1], [0]]>>) -> tensor<8xi32> {
  %least = arith.constant dense<-100> : tensor<8xi32>
  %0 = linalg.reduce {arith.maxsi} ins(%x : tensor<8x8xi32, #mesh.shard<@g, [[1], [0]]>>)
                                   outs(%least : tensor<8xi32>) dimensions = [1]
  return %0 : tensor<8xi32>
}
func.func @i1(%x: tensor<8x8xi1, #mesh.shard<@g, [[1], [0]]>>) -> tensor<8xi1> {
  %no = arith.constant dense<false> : tensor<8xi1>
  %0 = linalg.reduce {arith.addi} ins(%x : tensor<8x8xi1, #mesh.shard<@g, [[1], [0]]>>)
                                  outs(%no : tensor<8xi1>) dimensions = [1]
  return %0 : tensor<8xi1>
}
