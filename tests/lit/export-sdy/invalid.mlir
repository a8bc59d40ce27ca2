// What Shardy has no words for is refused where it stands.
//
// RUN: shard-opt %s --export-sdy --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_rule_without_results(%x: tensor<16xf32>) {
  // expected-error@+1 {{a rule of an op without results cannot be expressed in Shardy's sdy dialect}}
  stablehlo.custom_call @use(%x) {has_side_effect = true, mesh.sharding_rule = "([i])->()"} : (tensor<16xf32>) -> ()
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_rule_with_a_maximum(%x: tensor<16x8xf32>) -> tensor<16xf32> {
  // expected-error@+1 {{a rule that reduces by max cannot be expressed in Shardy's sdy dialect: it has sums only}}
  %0 = stablehlo.custom_call @max(%x) {mesh.sharding_rule = "([i, j])->([i]) reduction={j: max}"} : (tensor<16x8xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_hint(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{the soft constraint [[0], []] cannot be expressed in Shardy's sdy dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], []]>, required = false} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @halos(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{sharding [[0], [], {halo = [[1, 1], []]}] has halos or offsets, which Shardy cannot say}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], [], {halo = [[1, 1], []]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @offsets(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{sharding [[0], [], {offsets = [[0, 3, 16], []]}] has halos or offsets, which Shardy cannot say}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, 3, 16], []]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_place(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{'mesh.idx' op cannot be expressed in Shardy's sdy dialect}}
  %0 = "mesh.idx"() {cluster = @g} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_size(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{'mesh.size' op cannot be expressed in Shardy's sdy dialect}}
  %0 = "mesh.size"() {cluster = @g} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{function @a_permutation is in the distributed form: only annotated and propagated ones are exported}}
func.func @a_permutation(%x: tensor<16x16xf32, #mesh.shard<@g, [[0]]>>) {
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0], permutation = [1, 0]} : (tensor<16x16xf32, #mesh.shard<@g, [[0]]>>) -> tensor<16x16xf32, #mesh.shard<@g, [[0]]>>
  return
}

// -----

// expected-error@+1 {{grid @g(?), of unknown sizes, cannot be expressed in Shardy's sdy dialect}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64} : () -> ()

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_value_from_outside(%x: tensor<16x16xf32>, %y: tensor<8x16xf32>) -> tensor<16x16xf32> {
  // expected-error@+1 {{has a manual computation that reads a tensor<8x16xf32> from outside: expected only what 'mesh.to_local' takes}}
  %0 = scf.execute_region -> tensor<16x16xf32> no_inline {
    %1 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0]]>, manual_axes = [0]} : (tensor<16x16xf32>) -> tensor<8x16xf32>
    %2 = arith.addf %1, %y : tensor<8x16xf32>
    %3 = "mesh.to_global"(%2) {sharding = #mesh.shard<@g, [[0]]>, manual_axes = [0]} : (tensor<8x16xf32>) -> tensor<16x16xf32>
    scf.yield %3 : tensor<16x16xf32>
  } {mesh.manual_axes = [0]}
  return %0 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_result_that_is_no_tensor_of_shards(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  // expected-error@+1 {{has a manual computation that gives what no 'mesh.to_global' made}}
  %0 = scf.execute_region -> tensor<16x16xf32> no_inline {
    scf.yield %x : tensor<16x16xf32>
  } {mesh.manual_axes = [0]}
  return %0 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_global_tensor_inside(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  // expected-error@+1 {{has a manual computation that reads a 'mesh.to_global'}}
  %0 = scf.execute_region -> tensor<16x16xf32> no_inline {
    %1 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0]]>, manual_axes = [0]} : (tensor<16x16xf32>) -> tensor<8x16xf32>
    %2 = "mesh.to_global"(%1) {sharding = #mesh.shard<@g, [[0]]>, manual_axes = [0]} : (tensor<8x16xf32>) -> tensor<16x16xf32>
    %3 = math.tanh %2 : tensor<16x16xf32>
    scf.yield %2 : tensor<16x16xf32>
  } {mesh.manual_axes = [0]}
  return %0 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{function @a_later_form is in the distributed form: only annotated and propagated ones are exported}}
func.func @a_later_form(%x: tensor<16x16xf32>) attributes {mesh.form = "distributed"} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{function @a_local_form is in the local form: only annotated and propagated ones are exported}}
func.func @a_local_form(%x: tensor<16x16xf32>) attributes {mesh.form = "local"} {
  return
}
