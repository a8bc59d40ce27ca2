// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @not_partial(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'mesh.reduce_scatter' op sharding [[], []] is not partial sum over axes [0]}}
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_reduction(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.reduce_scatter' op sharding [[], [], [0]] is not partial min over axes [0]}}
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "min", tensor_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_dimension(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.reduce_scatter' op gives [[], [0]] from [[], [], [0]], but its result type says [[0], []]}}
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = 1 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_dimension_past_the_end(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.reduce_scatter' op tensor_axis is 2, but the tensor has 2 dimensions}}
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = 2 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_negative_dimension(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.reduce_scatter' op tensor_axis is -1, but the tensor has 2 dimensions}}
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = -1 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @at_the_major_end(%x: tensor<8x8xf32, #mesh.shard<@g, [[1], [], [0]]>>) {
  // expected-error@+1 {{'mesh.reduce_scatter' op gives [[1, 0], []] from [[1], [], [0]], but its result type says [[0], [1]]}}
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[1], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @no_dimension(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.reduce_scatter' op attribute "tensor_axis" is expected but not provided}}
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_dimension_that_is_no_number(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.reduce_scatter' op expected an integer, found "0"}}
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = "0"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @the_result_is_whole(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.reduce_scatter' op gives [[0], []] from [[], [], [0]], but its result type says [[], []]}}
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32>
  return
}
