// RUN: shard-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'mesh.sub_cluster' op grid @nowhere is not declared; the module's grids: @s}}
"mesh.sub_cluster"() {sym_name = "s", cluster = @nowhere, offsets = [0], sizes = [2]} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{'mesh.sub_cluster' op has 2 devices from 3 on axis 0 of @g(4)}}
"mesh.sub_cluster"() {sym_name = "s", cluster = @g, offsets = [3], sizes = [2]} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{'mesh.sub_cluster' op has 2 devices from -1 on axis 0 of @g(4)}}
"mesh.sub_cluster"() {sym_name = "s", cluster = @g, offsets = [-1], sizes = [2]} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{'mesh.sub_cluster' op grid @s has size 0 on axis 0}}
"mesh.sub_cluster"() {sym_name = "s", cluster = @g, offsets = [0], sizes = [0]} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{'mesh.sub_cluster' op has 2 offsets and 1 sizes: expected as many}}
"mesh.sub_cluster"() {sym_name = "s", cluster = @g, offsets = [0, 0], sizes = [2]} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{'mesh.sub_cluster' op has 2 sizes for @g(4), which has 1 axes}}
"mesh.sub_cluster"() {sym_name = "s", cluster = @g, offsets = [0, 0], sizes = [2, 1]} : () -> ()

// -----

// expected-note@+1 {{see existing symbol definition here}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{redefinition of symbol named 'g'}}
"mesh.sub_cluster"() {sym_name = "g", cluster = @g, offsets = [0], sizes = [2]} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{'mesh.sub_cluster' op is a part of @s, which is itself}}
"mesh.sub_cluster"() {sym_name = "s", cluster = @s, offsets = [0], sizes = [2]} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{'mesh.sub_cluster' op attribute "offsets" is expected but not provided}}
"mesh.sub_cluster"() {sym_name = "s", cluster = @g, sizes = [2]} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{expected base attribute 'builtin.symbol_ref' but got 'builtin.string'}}
"mesh.sub_cluster"() {sym_name = "s", cluster = "g", offsets = [0], sizes = [2]} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{'mesh.sub_cluster' op expected a list of integers, found ["a"]}}
"mesh.sub_cluster"() {sym_name = "s", cluster = @g, offsets = ["a"], sizes = [2]} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
func.func @f() {
  // expected-error@+1 {{'mesh.sub_cluster' op declares a grid inside of another op: expected it in the module}}
  "mesh.sub_cluster"() {sym_name = "s", cluster = @g, offsets = [0], sizes = [2]} : () -> ()
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "s", cluster = @g, offsets = [0], sizes = [2]} : () -> ()
// expected-error@+1 {{'func.func' op grid axis 1 in sharding [[1]] is not in grid @s of rank 1}}
func.func @axis_that_the_part_has_not(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@s, [[1]]>}) {
  return
}

// -----

// expected-error@+1 {{sub-cluster @a(2) is a part of itself, through @b}}
"mesh.sub_cluster"() {sym_name = "a", cluster = @b, offsets = [0], sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "b", cluster = @a, offsets = [0], sizes = [2]} : () -> ()
