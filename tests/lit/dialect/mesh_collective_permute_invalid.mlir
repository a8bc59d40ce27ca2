// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @places_missing(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op has mesh_axis alone: expected mesh_axis and permutation, or neither; of four devices permutation = array<i64: 1, 2, 3, 0> sends each shard to the next one}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @axes_missing(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op has permutation alone: expected mesh_axis and permutation, or neither; of four devices permutation = array<i64: 1, 2, 3, 0> sends each shard to the next one}}
  %0 = "mesh.collective_permute"(%x) {permutation = [1, 0]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @nothing_moves(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op has no mesh_axis, and its operand and result are on the same devices}}
  %0 = "mesh.collective_permute"(%x) {} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @too_few_places(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op has 2 places for groups of 4 devices}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [1], permutation = [1, 0]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_place_twice(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op permutation is [1, 1]: expected each of 0 to 1 once}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0], permutation = [1, 1]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_place_past_the_end(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op permutation is [1, 2]: expected each of 0 to 1 once}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0], permutation = [1, 2]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @an_axis_past_the_end(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{grid axis 2 in sharding [[2]] is not in grid @g of rank 2}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [2], permutation = [1, 0]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @an_axis_twice(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op grid axis 0 is used twice in sharding [[0, 0]]}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0, 0], permutation = [1, 0, 2, 3]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_negative_axis(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op grid axis -1 is negative in sharding [[-1]]}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [-1], permutation = [1, 0]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_sub_axis_that_does_not_divide(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{ends at 3, which does not divide axis 1 of size 4}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = ["1:(1)3"], permutation = [1, 0, 2]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_layout(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op does not permute the shards of [[0], []] to those of [[0], [1]]}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0], permutation = [1, 0]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_global_shape(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op has different global tensors as its operand and its result}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0], permutation = [1, 0]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x4xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @not_sharded(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'mesh.collective_permute' op permutes a tensor that is not sharded}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0], permutation = [1, 0]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @to_the_same_grid(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op moves nothing: both are on @g, and no axis is named}}
  %0 = "mesh.collective_permute"(%x) {} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
"mesh.cluster"() {sym_name = "h", rank = 1 : i64, dim_sizes = [4]} : () -> ()
func.func @to_fewer_devices(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op sends from @g(2x4) to @h(4): expected as many devices}}
  %0 = "mesh.collective_permute"(%x) {} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@h, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
"mesh.cluster"() {sym_name = "k", rank = 2 : i64, dim_sizes = [4, 2]} : () -> ()
func.func @to_other_shards(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op sends shards of [4, 8] to be [2, 8]}}
  %0 = "mesh.collective_permute"(%x) {} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@k, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @to_a_plain_type(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op permutes a tensor that is not sharded}}
  %0 = "mesh.collective_permute"(%x) {} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_place_that_is_no_number(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op expected a list of integers, found ["a", "b"]}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0], permutation = ["a", "b"]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @to_the_wrong_places(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.collective_permute' op does not permute the shards of [[0], []] to those of [[1], []]}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0, 1], permutation = [0, 1, 2, 3]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @to_no_cluster(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'mesh.collective_permute' op grid @h is not declared; the module's grids: @g}}
  %0 = "mesh.collective_permute"(%x) {cluster = @h} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
