// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @no_grid_to_be_on(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.annotate' op names no grid, and its function has no mesh_cluster}}
  %0 = "mesh.annotate"(%x) {sharding = [[0]]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @unknown_grid(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.annotate' op grid @nowhere is not declared; the module's grids: none}}
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@nowhere, [[0]]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @no_sharding(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.annotate' op attribute "sharding" is expected but not provided}}
  %0 = "mesh.annotate"(%x) {required = true} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @sharding_that_is_none(%x: tensor<4xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op expected a list of lists of axes, found "rows"}}
  %0 = "mesh.annotate"(%x) {sharding = "rows"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @not_a_list_of_lists(%x: tensor<4xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op expected a list of integers, found 0 : i64}}
  %0 = "mesh.annotate"(%x) {sharding = [0]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @required_maybe(%x: tensor<4xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op attribute 'required' must be true or false, found "maybe"}}
  %0 = "mesh.annotate"(%x) {sharding = [[0]], required = "maybe"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @as_result_one(%x: tensor<4xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op attribute 'as_result' must be true or false, found 1 : i64}}
  %0 = "mesh.annotate"(%x) {sharding = [[0]], as_result = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @more_lists_than_dimensions_and_one(%x: tensor<4xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op sharding [[0], [], []] has split axes for 3 dimensions, but the tensor has 1}}
  %0 = "mesh.annotate"(%x) {sharding = [[0], [], []]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @a_scalar_is_not_split(%x: tensor<f32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op sharding [[0], []] has split axes for 2 dimensions, but the tensor has 0}}
  %0 = "mesh.annotate"(%x) {sharding = [[0], []]} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @not_a_tensor(%x: f32) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op is on a f32}}
  %0 = "mesh.annotate"(%x) {sharding = []} : (f32) -> f32
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @unranked(%x: tensor<*xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op is on a tensor<*xf32>}}
  %0 = "mesh.annotate"(%x) {sharding = []} : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @another_type(%x: tensor<4xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{expected 'tensor<4xf32>' but got 'tensor<2xf32>'}}
  %0 = "mesh.annotate"(%x) {sharding = [[0]]} : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @nothing_to_annotate() attributes {mesh_cluster = @g} {
  // expected-error@+1 {{expects at least 1 operands, but got 0}}
  %0 = "mesh.annotate"() {sharding = [[0]]} : () -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @a_size_too_few(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.annotate' op has 0 sizes for 1 unknown ones in [[0], {halo = [[1, "?"]]}]}}
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0], {halo = [[1, "?"]]}]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @a_size_too_many(%x: tensor<4xf32>, %h: i64) {
  // expected-error@+1 {{'mesh.annotate' op has 1 sizes for 0 unknown ones in [[0]]}}
  %0 = "mesh.annotate"(%x, %h) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<4xf32>, i64) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @a_size_of_another_type(%x: tensor<4xf32>, %h: index) {
  // expected-error@+1 {{'mesh.annotate' op has a size of type index: expected i64}}
  %0 = "mesh.annotate"(%x, %h) {sharding = #mesh.shard<@g, [[0], {halo = [[1, "?"]]}]>} : (tensor<4xf32>, index) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @offsets_that_end_early(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.annotate' op offsets [0, 1, 3] in [[0], {offsets = [[0, 1, 3]]}] end at 3: expected the dimension's size, 4}}
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0], {offsets = [[0, 1, 3]]}]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @a_result_too_many(%x: tensor<4xf32>) {
  // expected-error@+1 {{expects exactly 1 results, but got 2}}
  %0:2 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}
