// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @not_the_axis_that_splits(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op axes [1] are not the minor axes of dimension 0 in sharding [[0], []]}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[1], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_major_axis(%x: tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op axes [1, 0] are not the minor axes of dimension 0 in sharding [[0, 1], []]}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[1, 0], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @the_result_is_still_split(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op gives [[], []] from [[0], []], but its result type says [[0], []]}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_dimension_in_tensor_axis(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op mesh_axis gathers dimensions [0], but tensor_axis is [1]}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []], tensor_axis = [1]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @more_dimensions_in_tensor_axis(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op mesh_axis gathers dimensions [0], but tensor_axis is [0, 1]}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []], tensor_axis = [0, 1]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_list_too_many(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op sharding [[0], [], [], []] has split axes for 4 dimensions, but the tensor has 2}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], [], [], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_global_shape(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op has different global tensors as its operand and its result}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<16x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_element_type(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op has different global tensors as its operand and its result}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf16>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @not_a_tensor(%x: f32) {
  // expected-error@+1 {{'mesh.all_gather' op takes and gives ranked tensors, found f32}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = []} : (f32) -> f32
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @unranked(%x: tensor<*xf32>) {
  // expected-error@+1 {{'mesh.all_gather' op takes and gives ranked tensors, found tensor<*xf32>}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = []} : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @no_mesh_axis(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op attribute "mesh_axis" is expected but not provided}}
  %0 = "mesh.all_gather"(%x) {tensor_axis = [0]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @numbers_for_lists(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op expected a list of integers, found 0 : i64}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [0]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_number_for_a_list(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op expected a list of lists of axes, found 0 : i64}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @an_axis_twice(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op grid axis 0 is used twice in sharding [[0], [0]]}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], [0]]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_partial_sum_that_ends(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [], [1]]>>) {
  // expected-error@+1 {{'mesh.all_gather' op gives [[], [], [1]] from [[0], [], [1]], but its result type says [[], []]}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [], [1]]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
"mesh.cluster"() {sym_name = "h", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @from_one_grid_to_another(%x: tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>) {
  // expected-error@+1 {{'mesh.all_gather' op goes from grid @g to @h}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[1], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>) -> tensor<8x8xf32, #mesh.shard<@h, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "m", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mesh_cluster = @m} {
  // expected-note@+1 {{prior use here}}
  %0 = mesh.annotate %x {sharding = [[0]]} : tensor<4x8xf32> -> tensor<4x8xf32>
  // expected-error@+1 {{annotations and collectives do not mix}}
  %1 = mesh.all_gather %0 {mesh_axis = [[0]]} : tensor<4x8xf32, #mesh.shard<[[0]]>> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
