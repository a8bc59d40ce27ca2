// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @two_of_one_value(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  %0 = "mesh.annotate"(%x) {sharding = [[0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error@+1 {{one value is annotated [[0], []] and [[1], []]}}
  %1 = "mesh.annotate"(%x) {sharding = [[1]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @one_behind_the_other(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  %0 = "mesh.annotate"(%x) {sharding = [[0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error@+1 {{one value is annotated [[0], []] and [[0, 1], []]}}
  %1 = "mesh.annotate"(%0) {sharding = [[0, 1]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.cluster"() {sym_name = "h", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @two_grids(%x: tensor<4x8xf32>) {
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error@+1 {{annotated [[0], []] on @g and [[0], []] on @h}}
  %1 = "mesh.annotate"(%x) {sharding = #mesh.shard<@h, [[0]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @an_argument_and_an_annotation(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  // expected-error@+1 {{one value is annotated [[0], []] and [[], [0]]}}
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[], [0]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @an_argument_and_its_type(
    // expected-error@+1 {{one value is annotated [[0], []] and [[1], []]}}
    %x: tensor<4x8xf32, #mesh.shard<@g, [[0]]>> {mesh.sharding = #mesh.shard<@g, [[1]]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @an_op_and_an_annotation(%x: tensor<4x8xf32>) {
  %0 = math.tanh %x {mesh.shardings = [#mesh.shard<@g, [[0]]>]} : tensor<4x8xf32>
  // expected-error@+1 {{one value is annotated [[0], []] and [[1], []]}}
  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@g, [[1]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @an_op_and_its_result_type(%x: tensor<4x8xf32, #mesh.shard<@g, [[0]]>>) {
  // expected-error@+1 {{one value is annotated [[0], []] and [[1], []]}}
  %0 = math.tanh %x {mesh.shardings = [#mesh.shard<@g, [[1]]>]} : tensor<4x8xf32, #mesh.shard<@g, [[0]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @split_and_partial(%x: tensor<4x8xf32>) attributes {mesh_cluster = @g} {
  %0 = math.tanh %x : tensor<4x8xf32>
  %1 = "mesh.annotate"(%0) {sharding = [[0], [], [1]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error@+1 {{one value is annotated [[0], [], [1]] and [[0], []]}}
  %2 = "mesh.annotate"(%0) {sharding = [[0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @split_where_the_other_is_closed(%x: tensor<4x8xf32>) {
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0], [], {open = [0]}]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error@+1 {{one value is annotated [[0], [], {open = [0]}] and [[0], [1]]}}
  %1 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @split_along_what_the_other_replicates(%x: tensor<4x8xf32>) {
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0], [], {open = [1], replicated = [1]}]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error@+1 {{one value is annotated [[0], [], {open = [1], replicated = [1]}] and [[0], [1]]}}
  %1 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @in_two_branches(%c: i1, %x: tensor<4x8xf32>) {
  scf.if %c {
    %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  } else {
    // expected-error@+1 {{one value is annotated [[0], []] and [[1], []]}}
    %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[1]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  }
  return
}
