// A dimension of one element that an op drops, or repeats, is on all devices.
//
// RUN: shard-run %s --check --entry dropped | filecheck %s
// RUN: shard-run %s --check --entry repeated | filecheck %s

// CHECK: check passed
shard.grid @g(shape = 2x2)
func.func @dropped(%x: tensor<1x1xf32> {mesh.sharding = #mesh.shard<@g, [[1], [0]]>})
    -> (tensor<1xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {
  %0 = tensor.extract_slice %x[0, 0] [1, 1] [1, 1] : tensor<1x1xf32> to tensor<1xf32>
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[]]>, required = true, as_result = true} : (tensor<1xf32>) -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

func.func @repeated(%x: tensor<1x3xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<4x3xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}) {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
