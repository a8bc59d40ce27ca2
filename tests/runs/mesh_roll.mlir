// Elements move to the next device, to one further away, and back; and along a dimension that is not split.
shard.grid @g(shape = 2x3)
func.func @main(%x: tensor<12x8xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1]]>})
    -> (tensor<12x8xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1]]>}) {
  %0 = "mesh.roll"(%x) {tensor_axis = 0 : i64, by = 1 : i64} : (tensor<12x8xf32>) -> tensor<12x8xf32>
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0, 1]]>} : (tensor<12x8xf32>) -> tensor<12x8xf32>
  %2 = arith.mulf %1, %x : tensor<12x8xf32>
  %3 = "mesh.roll"(%2) {tensor_axis = 0 : i64, by = -7 : i64} : (tensor<12x8xf32>) -> tensor<12x8xf32>
  %4 = "mesh.annotate"(%3) {sharding = #mesh.shard<@g, [[0, 1]]>} : (tensor<12x8xf32>) -> tensor<12x8xf32>
  %5 = "mesh.roll"(%4) {tensor_axis = 1 : i64, by = 3 : i64} : (tensor<12x8xf32>) -> tensor<12x8xf32>
  return %5 : tensor<12x8xf32>
}
