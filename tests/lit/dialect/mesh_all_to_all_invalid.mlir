// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @not_split_along_it(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) {
  // expected-error@+1 {{'mesh.all_to_all' op axes [1] are not the minor axes of dimension 0 in sharding [[0], [1]]}}
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [1], split_axis = 1 : i64, concat_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_major_axis(%x: tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>) {
  // expected-error@+1 {{'mesh.all_to_all' op axes [0] are not the minor axes of dimension 0 in sharding [[0, 1], []]}}
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [0], split_axis = 1 : i64, concat_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], [0]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @one_dimension(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) {
  // expected-error@+1 {{'mesh.all_to_all' op split_axis and concat_axis are both 0: they must differ}}
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [0], split_axis = 0 : i64, concat_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_split_dimension_past_the_end(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) {
  // expected-error@+1 {{'mesh.all_to_all' op split_axis is 2, but the tensor has 2 dimensions}}
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [0], split_axis = 2 : i64, concat_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_negative_concat_dimension(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) {
  // expected-error@+1 {{'mesh.all_to_all' op concat_axis is -1, but the tensor has 2 dimensions}}
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [0], split_axis = 1 : i64, concat_axis = -1 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @at_the_major_end(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) {
  // expected-error@+1 {{'mesh.all_to_all' op gives [[], [1, 0]] from [[0], [1]], but its result type says [[], [0, 1]]}}
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [0], split_axis = 1 : i64, concat_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [0, 1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @nothing_moved(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) {
  // expected-error@+1 {{'mesh.all_to_all' op gives [[], [1, 0]] from [[0], [1]], but its result type says [[0], [1]]}}
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [0], split_axis = 1 : i64, concat_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @no_split_axis(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) {
  // expected-error@+1 {{'mesh.all_to_all' op attribute "split_axis" is expected but not provided}}
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [0], concat_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_dimension_of_many_bits(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) {
  // expected-error@+1 {{'mesh.all_to_all' op 36893488147419103232 : i128 is wider than 64 bits}}
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [0], split_axis = 36893488147419103232 : i128, concat_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}
