// Shards change places along axes of a grid, or go to the devices of another cluster.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [4, 4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "first", cluster = @g, offsets = [0, 0], sizes = [2, 4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "second", cluster = @g, offsets = [2, 0], sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @along_axes
func.func @along_axes(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) {
  // CHECK{LITERAL}: mesh.collective_permute %arg0 {mesh_axis = [0], permutation = [1, 2, 3, 0]} : tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>> -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0], permutation = [1, 2, 3, 0]}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  // CHECK{LITERAL}: mesh.collective_permute %0 {mesh_axis = ["1:(1)2"], permutation = [1, 0]}
  %1 = "mesh.collective_permute"(%0) {mesh_axis = ["1:(1)2"], permutation = [1, 0]}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// CHECK-LABEL: func.func @to_another_cluster
func.func @to_another_cluster(%x: tensor<8x8xf32, #mesh.shard<@first, [[0], [1]]>>) {
  // CHECK{LITERAL}: mesh.collective_permute %arg0 : tensor<8x8xf32, #mesh.shard<@first, [[0], [1]]>> -> tensor<8x8xf32, #mesh.shard<@second, [[0], [1]]>>
  %0 = "mesh.collective_permute"(%x)
      : (tensor<8x8xf32, #mesh.shard<@first, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@second, [[0], [1]]>>
  return
}

// CHECK-LABEL: func.func @between_layouts
func.func @between_layouts(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // CHECK{LITERAL}: mesh.collective_permute %arg0 {mesh_axis = [0, 1], permutation = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]} : tensor<8x8xf32, #mesh.shard<@g, [[0], []]>> -> tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0, 1], permutation = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>
  return
}

// CHECK-LABEL: func.func @of_plain_shards
func.func @of_plain_shards(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK: mesh.collective_permute %arg0 {cluster = @g, mesh_axis = [0], permutation = [1, 2, 3, 0]} : tensor<2x8xf32> -> tensor<2x8xf32>
  %0 = "mesh.collective_permute"(%x) {cluster = @g, mesh_axis = [0], permutation = [1, 2, 3, 0]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @named_where_it_goes
func.func @named_where_it_goes(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK: mesh.collective_permute %arg0 {cluster = @second} : tensor<8x8xf32> -> tensor<8x8xf32>
  %0 = "mesh.collective_permute"(%x) {cluster = @second} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
