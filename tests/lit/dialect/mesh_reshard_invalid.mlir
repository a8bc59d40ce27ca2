// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @no_grid_to_be_on(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.reshard' op names no grid, and its function has no mesh_cluster}}
  %0 = "mesh.reshard"(%x) {sharding = [[0]]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @no_sharding(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.reshard' op attribute "sharding" is expected but not provided}}
  %0 = "mesh.reshard"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @another_type(%x: tensor<4xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{expected 'tensor<4xf32>' but got 'tensor<4xf16>'}}
  %0 = "mesh.reshard"(%x) {sharding = [[0]]} : (tensor<4xf32>) -> tensor<4xf16>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @not_a_tensor(%x: i32) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.reshard' op is on a i32}}
  %0 = "mesh.reshard"(%x) {sharding = []} : (i32) -> i32
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @an_axis_that_the_grid_has_not(%x: tensor<4xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.reshard' op grid axis 1 in sharding [[1]] is not in grid @g of rank 1}}
  %0 = "mesh.reshard"(%x) {sharding = [[1]]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @a_size_that_no_operand_gives(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.reshard' op has 0 sizes for 1 unknown ones in [[0], {halo = [["?", 0]]}]}}
  %0 = "mesh.reshard"(%x) {sharding = #mesh.shard<@g, [[0], {halo = [["?", 0]]}]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
