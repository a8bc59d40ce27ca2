// What upstream has no words for is refused where it stands.
//
// RUN: shard-opt %s --export-shard --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_partial_sum(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{the partial sum of [[], [], [0]] cannot be expressed in upstream's shard dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[], [], [0]]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_partial_maximum(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{the partial max of [[], [], {max = [0]}] cannot be expressed in upstream's shard dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[], [], {max = [0]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_sub_axis(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{a sub-axis of [["1:(1)2"], []] cannot be expressed in upstream's shard dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [["1:(1)2"], []]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @an_open_dimension(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{what is open, its priorities and replicated axes of [[0], [], {open = [1]}] cannot be expressed in upstream's shard dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], [], {open = [1]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_priority(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{what is open, its priorities and replicated axes of [[0], [], {priority = [1, unit]}] cannot be expressed in upstream's shard dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], [], {priority = [1, unit]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @replicated_axes(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{what is open, its priorities and replicated axes of [[0], [], {open = [1], replicated = [1]}] cannot be expressed in upstream's shard dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], [], {open = [1], replicated = [1]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_hint(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{the soft constraint [[0], []] cannot be expressed in upstream's shard dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], []]>, required = false} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{a sub-axis of [["1:(1)2"], []] cannot be expressed in upstream's shard dialect}}
func.func @an_argument(%x: tensor<16x16xf32> {mesh.sharding = #mesh.shard<@g, [["1:(1)2"]]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{a sub-axis of [["1:(1)2"], []] cannot be expressed in upstream's shard dialect}}
func.func @a_result(%x: tensor<16x16xf32>) -> (tensor<16x16xf32> {mesh.sharding = #mesh.shard<@g, [["1:(1)2"]]>}) {
  return %x : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @an_op(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{a sub-axis of [["1:(1)2"], []] cannot be expressed in upstream's shard dialect}}
  %0 = math.tanh %x {mesh.shardings = [#mesh.shard<@g, [["1:(1)2"]]>]} : tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_group(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{'mesh.sharding_group' op cannot be expressed in upstream's shard dialect}}
  "mesh.sharding_group"(%x) {group_id = 1 : i64} : (tensor<16x16xf32>) -> ()
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_barrier(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{'mesh.propagation_barrier' op cannot be expressed in upstream's shard dialect}}
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = "none"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_place(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{'mesh.idx' op cannot be expressed in upstream's shard dialect}}
  %0 = "mesh.idx"() {cluster = @g} : () -> index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_size(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{'mesh.size' op cannot be expressed in upstream's shard dialect}}
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

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_manual_computation(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = scf.execute_region -> tensor<16x16xf32> no_inline {
    // expected-error@+1 {{'mesh.to_local' op cannot be expressed in upstream's shard dialect}}
    %1 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0]]>, manual_axes = [0]} : (tensor<16x16xf32>) -> tensor<8x16xf32>
    %2 = "mesh.to_global"(%1) {sharding = #mesh.shard<@g, [[0]]>, manual_axes = [0]} : (tensor<8x16xf32>) -> tensor<16x16xf32>
    scf.yield %2 : tensor<16x16xf32>
  } {mesh.manual_axes = [0]}
  return %0 : tensor<16x16xf32>
}

// -----

// expected-error@+1 {{grid @g, with devices in an order, cannot be expressed in upstream's shard dialect}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2], device_ids = [1, 0]} : () -> ()

// -----

// expected-error@+1 {{grid @g, with devices in an order, cannot be expressed in upstream's shard dialect}}
"mesh.cluster"() {sym_name = "g", rank = 0 : i64, device_ids = [3]} : () -> ()

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

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
// expected-error@+1 {{offsets along several axes of [[0, 1], {offsets = [[0, 1, 2, 3, 8]]}] cannot be expressed in upstream's shard dialect}}
func.func @offsets_along_several_axes(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0, 1], {offsets = [[0, 1, 2, 3, 8]]}]>}) {
  return
}
