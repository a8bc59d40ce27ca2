// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @no_offsets(%x: tensor<8xf32, #mesh.shard<@g, [[0]]>>) {
  // expected-error@+1 {{'mesh.change_offsets' op has no offsets of dimension 0 in its types}}
  %0 = "mesh.change_offsets"(%x) {tensor_axis = 0 : i64} : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @another_axis(%x: tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 3, 8]]}]>>) {
  // expected-error@+1 {{'mesh.change_offsets' op dimension 0 of sharding [[0], {offsets = [[0, 3, 8]]}] is not split along [1], without a halo}}
  %0 = "mesh.change_offsets"(%x) {tensor_axis = 0 : i64} : (tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 3, 8]]}]>>) -> tensor<8xf32, #mesh.shard<@g, [[1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @another_dimension(%x: tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 3, 8]]}]>>) {
  // expected-error@+1 {{'mesh.change_offsets' op tensor_axis is 1, but the tensor has 1 dimensions}}
  %0 = "mesh.change_offsets"(%x) {tensor_axis = 1 : i64} : (tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 3, 8]]}]>>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @more_than_offsets(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1], {offsets = [[0, 3, 8], []]}]>>) {
  // expected-error@+1 {{'mesh.change_offsets' op gives [[0], [1]] from [[0], [1], {offsets = [[0, 3, 8], []]}], but its result type says [[0], []]}}
  %0 = "mesh.change_offsets"(%x) {tensor_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1], {offsets = [[0, 3, 8], []]}]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}
