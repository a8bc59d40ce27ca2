// Devices get the elements of other shards that they lack: at other offsets, along other axes.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()

// CHECK-LABEL: func.func @to_equal_shards
func.func @to_equal_shards(%x: tensor<3x8xf32, #mesh.shard<@g, [[], [0], {offsets = [[], [0, 3, 8]]}]>>) {
  // CHECK: mesh.exchange %arg0 : {{.*}} -> tensor<3x8xf32, #mesh.shard<@g, {{\[\[}}], [0]]>>
  %0 = "mesh.exchange"(%x) : (tensor<3x8xf32, #mesh.shard<@g, [[], [0], {offsets = [[], [0, 3, 8]]}]>>) -> tensor<3x8xf32, #mesh.shard<@g, [[], [0]]>>
  return
}

// CHECK-LABEL: func.func @between_offsets
func.func @between_offsets(%x: tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 3, 8]]}]>>) {
  // CHECK: mesh.exchange %arg0 : {{.*}} -> tensor<8xf32, #mesh.shard<@g, {{\[\[}}0], {offsets = {{\[\[}}0, 0, 8]]}]>>
  %0 = "mesh.exchange"(%x) : (tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 3, 8]]}]>>) -> tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 0, 8]]}]>>
  return
}

// CHECK-LABEL: func.func @along_other_axes
func.func @along_other_axes(%x: tensor<7x9xf32, #mesh.shard<@g, [[0, 1], []]>>) {
  // CHECK: mesh.exchange %arg0 : {{.*}} -> tensor<7x9xf32, #mesh.shard<@g, {{\[\[}}1], [0]]>>
  %0 = "mesh.exchange"(%x) : (tensor<7x9xf32, #mesh.shard<@g, [[0, 1], []]>>) -> tensor<7x9xf32, #mesh.shard<@g, [[1], [0]]>>
  return
}
