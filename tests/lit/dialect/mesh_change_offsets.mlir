// The shards of a dimension begin elsewhere: at other offsets, or as equal shards do.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @to_equal_shards
func.func @to_equal_shards(%x: tensor<3x8xf32, #mesh.shard<@g, [[], [0], {offsets = [[], [0, 3, 8]]}]>>) {
  // CHECK: mesh.change_offsets %arg0 {tensor_axis = 1 : i64} : {{.*}} -> tensor<3x8xf32, #mesh.shard<@g, {{\[\[}}], [0]]>>
  %0 = "mesh.change_offsets"(%x) {tensor_axis = 1 : i64} : (tensor<3x8xf32, #mesh.shard<@g, [[], [0], {offsets = [[], [0, 3, 8]]}]>>) -> tensor<3x8xf32, #mesh.shard<@g, [[], [0]]>>
  return
}

// CHECK-LABEL: func.func @between_offsets
func.func @between_offsets(%x: tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 3, 8]]}]>>) {
  // CHECK: mesh.change_offsets %arg0 {tensor_axis = 0 : i64} : {{.*}} -> tensor<8xf32, #mesh.shard<@g, {{\[\[}}0], {offsets = {{\[\[}}0, 0, 8]]}]>>
  %0 = "mesh.change_offsets"(%x) {tensor_axis = 0 : i64} : (tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 3, 8]]}]>>) -> tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 0, 8]]}]>>
  return
}
