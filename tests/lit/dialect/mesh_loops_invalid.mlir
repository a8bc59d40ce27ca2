// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_loop_along_an_axis_past_the_end(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'math.tanh' op sharding = [[2]] has axis 2, which is not in grid @g(2x8)}}
  %0 = math.tanh %x {sharding = [[2]]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_loop_along_a_negative_axis(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'math.tanh' op sharding = [[-1]] has axis -1, which is not in grid @g(2x8)}}
  %0 = math.tanh %x {sharding = [[-1]]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @an_axis_for_two_loops(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'math.tanh' op grid axis 0 splits two loops in sharding = [[0], [0]]}}
  %0 = math.tanh %x {sharding = [[0], [0]]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @an_axis_twice_for_one_loop(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'math.tanh' op grid axis 0 splits two loops in sharding = [[0, 0]]}}
  %0 = math.tanh %x {sharding = [[0, 0]]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_part_of_an_axis(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'math.tanh' op sharding = [["1:(1)2"]] has axis 1:(1)2, which is not in grid @g(2x8)}}
  %0 = math.tanh %x {sharding = [["1:(1)2"]]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @not_axes(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'math.tanh' op expected an axis as 0, or a part of one as "0:(1)2", found unit}}
  %0 = math.tanh %x {sharding = [[unit]]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @no_list_for_each_loop(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'math.tanh' op attribute 'sharding' must be a list of axes for each loop, as [[0], []], found [0]}}
  %0 = math.tanh %x {sharding = [0]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_list_for_some_loops(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{must be a list of axes for each loop, as [[0], []], found [[], 0]}}
  %0 = math.tanh %x {sharding = [[], 0]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @no_list(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'stablehlo.dot' op attribute 'sharding' must be a list of axes for each loop, as [[0], []], found "x"}}
  %0 = stablehlo.dot %x, %w {sharding = "x"} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @no_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'math.tanh' op names no grid, and its function has no mesh_cluster}}
  %0 = math.tanh %x {sharding = [[0]]} : tensor<4x8xf32>
  return
}
