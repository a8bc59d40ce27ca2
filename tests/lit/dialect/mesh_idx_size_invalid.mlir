// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @idx_of_no_cluster() {
  // expected-error@+1 {{'mesh.idx' op names no grid, and its function has no mesh_cluster}}
  %0 = "mesh.idx"() {} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @idx_of_an_unknown_cluster() {
  // expected-error@+1 {{'mesh.idx' op grid @nowhere is not declared; the module's grids: @g}}
  %0 = "mesh.idx"() {cluster = @nowhere} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @idx_along_an_axis_past_the_end() {
  // expected-error@+1 {{'mesh.idx' op asks for axis 2, which is not in grid @g(2x4)}}
  %0 = "mesh.idx"() {cluster = @g, mesh_axis = [2]} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @idx_along_a_negative_axis() {
  // expected-error@+1 {{'mesh.idx' op asks for axes [-1]: expected different axes of the grid}}
  %0 = "mesh.idx"() {cluster = @g, mesh_axis = [-1]} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @idx_along_an_axis_twice() {
  // expected-error@+1 {{'mesh.idx' op asks for axes [0, 0]: expected different axes of the grid}}
  %0 = "mesh.idx"() {cluster = @g, mesh_axis = [0, 0]} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @idx_along_a_word() {
  // expected-error@+1 {{'mesh.idx' op expected a list of integers, found ["x"]}}
  %0 = "mesh.idx"() {cluster = @g, mesh_axis = ["x"]} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @idx_of_a_string() {
  // expected-error@+1 {{'mesh.idx' op attribute 'cluster' must be the name of a grid, found "g"}}
  %0 = "mesh.idx"() {cluster = "g"} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @idx_as_an_i64() {
  // expected-error@+1 {{expected base type 'builtin.index' but got 'builtin.integer'}}
  %0 = "mesh.idx"() {cluster = @g} : () -> i64
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @size_of_no_cluster() {
  // expected-error@+1 {{'mesh.size' op names no grid, and its function has no mesh_cluster}}
  %0 = "mesh.size"() {} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @size_of_an_unknown_cluster() {
  // expected-error@+1 {{'mesh.size' op grid @nowhere is not declared; the module's grids: @g}}
  %0 = "mesh.size"() {cluster = @nowhere} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @size_along_an_axis_past_the_end() {
  // expected-error@+1 {{'mesh.size' op asks for axis 2, which is not in grid @g(2x4)}}
  %0 = "mesh.size"() {cluster = @g, mesh_axis = [2]} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @size_along_a_negative_axis() {
  // expected-error@+1 {{'mesh.size' op asks for axes [-1]: expected different axes of the grid}}
  %0 = "mesh.size"() {cluster = @g, mesh_axis = [-1]} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @size_along_an_axis_twice() {
  // expected-error@+1 {{'mesh.size' op asks for axes [0, 0]: expected different axes of the grid}}
  %0 = "mesh.size"() {cluster = @g, mesh_axis = [0, 0]} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @size_along_a_word() {
  // expected-error@+1 {{'mesh.size' op expected a list of integers, found ["x"]}}
  %0 = "mesh.size"() {cluster = @g, mesh_axis = ["x"]} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @size_of_a_string() {
  // expected-error@+1 {{'mesh.size' op attribute 'cluster' must be the name of a grid, found "g"}}
  %0 = "mesh.size"() {cluster = "g"} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @size_as_an_i64() {
  // expected-error@+1 {{expected base type 'builtin.index' but got 'builtin.integer'}}
  %0 = "mesh.size"() {cluster = @g} : () -> i64
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @axis_past_the_end() attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.idx' op asks for axis 2, which is not in grid @g(2x4)}}
  %0 = "mesh.idx"() {axis = 2 : index} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @negative_axis() attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.size' op asks for axes [-1]: expected different axes of the grid}}
  %0 = "mesh.size"() {axis = -1 : index} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @axis_is_no_number() attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.idx' op expected an integer, found [0]}}
  %0 = "mesh.idx"() {axis = [0]} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @one_axis_and_several() attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.idx' op has axis and mesh_axis: expected one of them}}
  %0 = "mesh.idx"() {axis = 0 : index, mesh_axis = [0, 1]} : () -> index
  return
}

// -----

func.func @no_grid() {
  // expected-error@+1 {{'mesh.idx' op names no grid, and its function has no mesh_cluster}}
  %0 = "mesh.idx"() {axis = 0 : index} : () -> index
  return
}
