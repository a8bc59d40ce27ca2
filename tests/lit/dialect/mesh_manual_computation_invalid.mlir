// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_shard_of_the_wrong_size(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op has shards of type tensor<2x8xf32>, expected the shape [4, 8] of tensor<8x8xf32>}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [0]} : (tensor<8x8xf32>) -> tensor<2x8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_shard_of_another_element_type(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op has shards of type tensor<4x8xf16>, expected the shape [4, 8] of tensor<8x8xf32>}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [0]} : (tensor<8x8xf32>) -> tensor<4x8xf16>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_shard_of_another_rank(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op has shards of type tensor<4xf32>, expected the shape [4, 8] of tensor<8x8xf32>}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [0]} : (tensor<8x8xf32>) -> tensor<4xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_shard_that_is_no_tensor(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op has shards of type f32 of a tensor<8x8xf32>}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [0]} : (tensor<8x8xf32>) -> f32
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @cut_along_a_free_axis(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op has shards of type tensor<2x8xf32>, expected the shape [8, 8] of tensor<8x8xf32>}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[1], []]>, manual_axes = [0]} : (tensor<8x8xf32>) -> tensor<2x8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_manual_axis_after_a_free_one(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op a manual axis after a free one in dimension 0 of [[1, 0], []]}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[1, 0], []]>, manual_axes = [0]} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @sizes_that_do_not_divide(%x: tensor<6x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op dimension 0 of size 6 cannot be split evenly into 4 shards}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[1], []]>, manual_axes = [1]} : (tensor<6x8xf32>) -> tensor<1x8xf32>
    scf.yield
  } {mesh.manual_axes = [1]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @an_axis_that_the_grid_has_not(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op grid axis 2 in sharding [[2]] is not in grid @g of rank 2}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [2]} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    scf.yield
  } {mesh.manual_axes = [2]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_scalar_of_another_type(%x: index) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op has shards of type i64 of a index}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, []>, manual_axes = [0]} : (index) -> i64
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @no_manual_axes(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op attribute "manual_axes" is expected but not provided}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0], []]>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @no_sharding(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op attribute "sharding" is expected but not provided}}
    %0 = "mesh.to_local"(%x) {manual_axes = [0]} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_whole_of_the_wrong_size(%x: tensor<4x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_global' op has shards of type tensor<4x8xf32>, expected the shape [8, 8] of tensor<16x8xf32>}}
    %0 = "mesh.to_global"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [0]} : (tensor<4x8xf32>) -> tensor<16x8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_whole_of_another_rank(%x: tensor<4x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_global' op has shards of type tensor<4x8xf32>, expected the shape [4] of tensor<8xf32>}}
    %0 = "mesh.to_global"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [0]} : (tensor<4x8xf32>) -> tensor<8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_whole_by_a_manual_axis_after_a_free_one(%x: tensor<4x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_global' op a manual axis after a free one in dimension 0 of [[1, 0], []]}}
    %0 = "mesh.to_global"(%x) {sharding = #mesh.shard<@g, [[1, 0], []]>, manual_axes = [0]} : (tensor<4x8xf32>) -> tensor<8x8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @an_axis_twice(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op grid axis 0 is used twice in sharding [[0, 0]]}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [0, 0]} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    scf.yield
  } {mesh.manual_axes = [0, 0]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_negative_axis(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op grid axis -1 is negative in sharding [[-1]]}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [-1]} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    scf.yield
  } {mesh.manual_axes = [-1]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @outside_of_a_computation(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'mesh.to_local' op is not in an 'scf.execute_region' with mesh.manual_axes}}
  %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [0]} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @in_one_with_other_axes(%x: tensor<8x8xf32>) {
  scf.execute_region no_inline {
    // expected-error@+1 {{'mesh.to_local' op has manual_axes [0] in a region with [0, 1]}}
    %0 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [0]} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    scf.yield
  } {mesh.manual_axes = [0, 1]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_part_of_an_axis(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'scf.execute_region' op expected a list of integers, found ["1:(1)2"]}}
  scf.execute_region no_inline {
    scf.yield
  } {mesh.manual_axes = ["1:(1)2"]}
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_op(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'math.tanh' op has mesh.manual_axes, which only 'scf.execute_region' may have}}
  %0 = math.tanh %x {mesh.manual_axes = [0]} : tensor<8x8xf32>
  return
}
