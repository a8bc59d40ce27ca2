// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid @nowhere is not declared; the module's grids: @g}}
func.func @a_cluster_that_is_not_there() attributes {mesh_cluster = @nowhere} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op attribute 'mesh_cluster' must be the name of a grid, found "g"}}
func.func @a_cluster_by_string() attributes {mesh_cluster = "g"} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{mesh.sharding on a tensor<*xf32>, which has no rank}}
func.func @a_sharding_of_an_unranked_tensor(%x: tensor<*xf32> {mesh.sharding = #mesh.shard<@g, []>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected #mesh.shard<@grid, [...]>, found "rows"}}
func.func @a_sharding_that_is_none(%x: tensor<4x8xf32> {mesh.sharding = "rows"}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected #mesh.shard<@grid, [...]>, found [[0]]}}
func.func @a_sharding_without_its_grid(%x: tensor<4x8xf32> {mesh.sharding = [[0]]}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sharding [[0], []] has split axes for 2 dimensions, but the tensor has 0}}
func.func @a_scalar_that_is_split(%x: f32 {mesh.sharding = #mesh.shard<@g, [[0], []]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axis 2 in sharding [[2], []] is not in grid @g of rank 2}}
func.func @a_result_with_an_axis_past_the_end() -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[2]]>}) {
  %0 = tensor.empty() : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op mesh.form is 'half', expected one of propagated, distributed, local, lowered}}
func.func @an_unknown_form() attributes {mesh.form = "half"} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op attribute 'mesh.form' must be a string, found 2 : i64}}
func.func @a_form_that_is_no_string() attributes {mesh.form = 2 : i64} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op is in the local form, which has no sharded types}}
func.func @a_type_with_a_sharding_in_the_local_form(%x: tensor<4x8xf32, #mesh.shard<@g, [[0]]>>) attributes {mesh.form = "local"} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op mesh.argument is tensor<4x8xf32, #mesh.shard<@g, [[0], []]>>, whose shard is tensor<2x8xf32>, not tensor<4x8xf32>}}
func.func @a_shard_of_another_shape(%x: tensor<4x8xf32> {mesh.argument = tensor<4x8xf32, #mesh.shard<@g, [[0]]>>}) attributes {mesh.form = "local"} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op mesh.argument must be a tensor type, found 4 : i64}}
func.func @a_global_type_that_is_none(%x: tensor<4x8xf32> {mesh.argument = 4 : i64}) attributes {mesh.form = "local"} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op mesh.collective describes no collective from one buffer to another: {grid = @g, name = "shard.nothing"}}}
func.func @a_runtime_function_that_does_nothing(%x: memref<4xf32>, %y: memref<4xf32>) attributes {mesh.collective = {name = "shard.nothing", grid = @g}} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op mesh.local_types is [1, tensor<4xf32>]: expected two tensors of known size}}
func.func @local_types_that_are_none(%x: memref<4xf32>, %y: memref<4xf32>) attributes {mesh.collective = {name = "shard.all_reduce", grid = @g, grid_axes = array<i16: 0>, mesh.local_types = [1, tensor<4xf32>]}} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op attribute 'mesh.collective' must be a dictionary, found "all_reduce"}}
func.func @a_runtime_function_without_a_description(%x: memref<4xf32>, %y: memref<4xf32>) attributes {mesh.collective = "all_reduce"} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @fewer_shardings_than_results(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'math.sincos' op has 1 mesh.shardings for 2 results}}
  %s, %c = math.sincos %x {mesh.shardings = [#mesh.shard<@g, [[0]]>]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @more_shardings_than_results(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'math.tanh' op has 2 mesh.shardings for 1 results}}
  %0 = math.tanh %x {mesh.shardings = [#mesh.shard<@g, [[0]]>, unit]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @shardings_that_are_no_list(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'math.tanh' op attribute 'mesh.shardings' must be a list of shardings, found #mesh.shard<@g, [[0]]>}}
  %0 = math.tanh %x {mesh.shardings = #mesh.shard<@g, [[0]]>} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_sharding_in_the_list_that_is_none(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'math.tanh' op expected #mesh.shard<@grid, [...]>, found [0]}}
  %0 = math.tanh %x {mesh.shardings = [[0]]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @more_dimensions_than_the_result(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'math.tanh' op sharding [[0], [], [], []] has split axes for 4 dimensions, but the tensor has 2}}
  %0 = math.tanh %x {mesh.shardings = [#mesh.shard<@g, [[0], [], [], []]>]} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_sharding_of_an_op_without_results(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'func.call' op has 1 mesh.shardings for 0 results}}
  func.call @effect() {mesh.shardings = [#mesh.shard<@g, []>]} : () -> ()
  return
}
func.func private @effect()

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_rule_that_is_none(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'math.tanh' op expected a rule as ([i, k], [k, j])->([i, j]) {i=4, j=8, k=2} reduction={k}, found rows}}
  %0 = math.tanh %x {mesh.sharding_rule = "rows"} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_rule_that_is_no_string(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'math.tanh' op attribute 'mesh.sharding_rule' must be a string, found 1 : i64}}
  %0 = math.tanh %x {mesh.sharding_rule = 1 : i64} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_rule_for_two_operands(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'math.tanh' op the rule is for 2 operands, but the op has 1: expected as many}}
  %0 = math.tanh %x {mesh.sharding_rule = "([i, j], [i, j])->([i, j]) {i=4, j=8}"} : tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_rule_for_three_dimensions(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'math.tanh' op the rule has 3 dimensions for operand 0, which has 2}}
  %0 = math.tanh %x {mesh.sharding_rule = "([i, j, k])->([i, j, k]) {i=4, j=8, k=1}"} : tensor<4x8xf32>
  return
}
