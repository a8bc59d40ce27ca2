// A value to explain is named as it is printed: annotations of shard have no numbers.
//
// RUN: shard-opt %s --propagate --explain-sharding=%%1 2>%t.err | filecheck %s
// RUN: filecheck %s --input-file=%t.err --check-prefix=REMARK

// CHECK: %1 = stablehlo.transpose
// REMARK: {{.*}}explain_shard.mlir:14:8: remark: %1 is sharded as {{\[\[}}], [0]]
// REMARK: note: dimension 0 along [0]: annotated
shard.grid @g(shape = 2)
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %a = shard.shard %x to %rows : tensor<8x8xf32>
  %b = stablehlo.tanh %a : tensor<8x8xf32>
  %c = stablehlo.transpose %b, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}
