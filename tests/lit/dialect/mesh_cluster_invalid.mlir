// RUN: shard-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'mesh.cluster' op cluster @g of rank 1 has 2 dim_sizes}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2, 4]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op cluster @g has rank -1: expected 0 to 64}}
"mesh.cluster"() {sym_name = "g", rank = -1 : i64} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op cluster @g has rank 65: expected 0 to 64}}
"mesh.cluster"() {sym_name = "g", rank = 65 : i64} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op 1 : i128 is wider than 64 bits}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i128} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op grid @g has size -2 on axis 0}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [-2]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op expected a list of integers, found ["two"]}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = ["two"]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op expected a list of integers, found 2 : i64}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = 2 : i64} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op attribute 'sym_name' must be a string, found None}}
"mesh.cluster"() {rank = 1 : i64} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op attribute 'rank' must be an integer, found None}}
"mesh.cluster"() {sym_name = "g"} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op attribute 'sym_name' must be a string, found 3 : i64}}
"mesh.cluster"() {sym_name = 3 : i64, rank = 1 : i64} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op attribute 'rank' must be an integer, found "one"}}
"mesh.cluster"() {sym_name = "g", rank = "one"} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op grid @g has 1 axis names for 2 axes}}
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2], axis_names = ["x"]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op grid @g has two axes named "x"}}
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2], axis_names = ["x", "x"]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op attribute 'axis_names' must be a list of strings}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2], axis_names = [0]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op attribute 'axis_names' must be a list of names, found "x"}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2], axis_names = "x"} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op grid @g of 2 devices has device ids [0]}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2], device_ids = [0]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op grid @g of 2 devices has device ids [1, 1]}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2], device_ids = [1, 1]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op grid @g has device id -1: ids are not negative}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2], device_ids = [-1, 0]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op cluster @g has device_ids, and sizes that are not known}}
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, -1], device_ids = [1, 0]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op grid @g has 2 device ids and no axes}}
"mesh.cluster"() {sym_name = "g", rank = 0 : i64, device_ids = [1, 0]} : () -> ()

// -----

// expected-note@+1 {{see existing symbol definition here}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64} : () -> ()
// expected-error@+1 {{redefinition of symbol named 'g'}}
"mesh.cluster"() {sym_name = "g", rank = 2 : i64} : () -> ()

// -----

// expected-note@+1 {{see existing symbol definition here}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64} : () -> ()
// expected-error@+1 {{redefinition of symbol named 'g'}}
shard.grid @g(shape = 2)

// -----

// expected-note@+1 {{see existing symbol definition here}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64} : () -> ()
// expected-error@+1 {{redefinition of symbol named 'g'}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "g"}> : () -> ()

// -----

func.func @f(%x: i64) {
  // expected-error@+1 {{'mesh.cluster' op declares a grid inside of another op: expected it in the module}}
  "mesh.cluster"() {sym_name = "g", rank = 1 : i64} : () -> ()
  return
}

// -----

func.func @f(%x: i64) {
  // expected-error@+1 {{expects exactly 0 operands, but got 1}}
  "mesh.cluster"(%x) {sym_name = "g", rank = 1 : i64} : (i64) -> ()
  return
}

// -----

// expected-error@+1 {{'mesh.cluster' op grid @g(4611686018427387904x4) has more than 9223372036854775807 devices}}
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [4611686018427387904, 4]} : () -> ()

// -----

// expected-error@+1 {{'mesh.cluster' op 36893488147419103232 : i128 is wider than 64 bits}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [36893488147419103232 : i128]} : () -> ()
