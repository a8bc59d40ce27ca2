// What the RFC has no words for is refused where it stands.
//
// RUN: shard-opt %s --export-mesh --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_sub_axis(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{a sub-axis of [["1:(1)2"], []] cannot be expressed in the RFC's mesh dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [["1:(1)2"], []]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @an_open_dimension(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{what is open, its priorities and replicated axes of [[0], [], {open = [1]}] cannot be expressed in the RFC's mesh dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], [], {open = [1]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_priority(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{what is open, its priorities and replicated axes of [[0], [], {priority = [1, unit]}] cannot be expressed in the RFC's mesh dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], [], {priority = [1, unit]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @replicated_axes(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{what is open, its priorities and replicated axes of [[0], [], {open = [1], replicated = [1]}] cannot be expressed in the RFC's mesh dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], [], {open = [1], replicated = [1]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @halos(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{the halos or offsets of [[0], [], {halo = [[1, 1], []]}] cannot be expressed in the RFC's mesh dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], [], {halo = [[1, 1], []]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @offsets(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = math.tanh %x : tensor<16x16xf32>
  // expected-error@+1 {{the halos or offsets of [[0], [], {offsets = [[0, 3, 16], []]}] cannot be expressed in the RFC's mesh dialect}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, 3, 16], []]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{a sub-axis of [["1:(1)2"], []] cannot be expressed in the RFC's mesh dialect}}
func.func @an_argument(%x: tensor<16x16xf32> {mesh.sharding = #mesh.shard<@g, [["1:(1)2"]]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{a sub-axis of [["1:(1)2"], []] cannot be expressed in the RFC's mesh dialect}}
func.func @a_result(%x: tensor<16x16xf32>) -> (tensor<16x16xf32> {mesh.sharding = #mesh.shard<@g, [["1:(1)2"]]>}) {
  return %x : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @an_op(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{a sub-axis of [["1:(1)2"], []] cannot be expressed in the RFC's mesh dialect}}
  %0 = math.tanh %x {mesh.shardings = [#mesh.shard<@g, [["1:(1)2"]]>]} : tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_reshard(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{'mesh.reshard' op cannot be expressed in the RFC's mesh dialect}}
  %0 = "mesh.reshard"(%x) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_group(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{'mesh.sharding_group' op cannot be expressed in the RFC's mesh dialect}}
  "mesh.sharding_group"(%x) {group_id = 1 : i64} : (tensor<16x16xf32>) -> ()
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_barrier(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{'mesh.propagation_barrier' op cannot be expressed in the RFC's mesh dialect}}
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = "none"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_manual_computation(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = scf.execute_region -> tensor<16x16xf32> no_inline {
    // expected-error@+1 {{'mesh.to_local' op cannot be expressed in the RFC's mesh dialect}}
    %1 = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0]]>, manual_axes = [0]} : (tensor<16x16xf32>) -> tensor<8x16xf32>
    %2 = "mesh.to_global"(%1) {sharding = #mesh.shard<@g, [[0]]>, manual_axes = [0]} : (tensor<8x16xf32>) -> tensor<16x16xf32>
    scf.yield %2 : tensor<16x16xf32>
  } {mesh.manual_axes = [0]}
  return %0 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_named_computation(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  // expected-error@+1 {{mesh.named_computation of 'scf.execute_region' op cannot be expressed in the RFC's mesh dialect}}
  %0 = scf.execute_region -> tensor<16x16xf32> no_inline {
    scf.yield %x : tensor<16x16xf32>
  } {mesh.named_computation = "f"}
  return %0 : tensor<16x16xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_rule(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{mesh.sharding_rule of 'math.tanh' op cannot be expressed in the RFC's mesh dialect}}
  %0 = math.tanh %x {mesh.sharding_rule = "([i, j])->([i, j]) {i=16, j=16}"} : tensor<16x16xf32>
  return
}

// -----

// expected-error@+1 {{grid @g, with names or an order, cannot be expressed in the RFC's mesh dialect}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2], device_ids = [1, 0]} : () -> ()

// -----

// expected-error@+1 {{grid @g, with names or an order, cannot be expressed in the RFC's mesh dialect}}
"mesh.cluster"() {sym_name = "g", rank = 0 : i64, device_ids = [3]} : () -> ()

// -----

// expected-error@+1 {{grid @g, with names or an order, cannot be expressed in the RFC's mesh dialect}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2], axis_names = ["x"]} : () -> ()

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
