// What is propagated, and cannot be cut yet, is refused where it stands.
//
// RUN: shard-opt %s --propagate --materialize --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @halos(%x: tensor<16x16xf32>, %h: i64) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{cannot shard a tensor as [[0], [], {halo = [["?", 1], []]}]: write its halos as numbers or constants, or give arguments values by --specialize (run: --scalars); the shapes of shards must be known before the program runs}}
  %0 = "mesh.annotate"(%x, %h) {sharding = #mesh.shard<@g, [[0], [], {halo = [["?", 1], []]}]>} : (tensor<16x16xf32>, i64) -> tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @offsets(%x: tensor<16x16xf32>, %at: i64) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{cannot shard a tensor as [[0], [], {offsets = [[0, "?", 16], []]}]: write its offsets as numbers or constants, or give arguments values by --specialize (run: --scalars); the shapes of shards must be known before the program runs}}
  %0 = "mesh.annotate"(%x, %at) {sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, "?", 16], []]}]>} : (tensor<16x16xf32>, i64) -> tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @constants_that_do_not_fit(%x: tensor<16x16xf32>) attributes {mesh_cluster = @g} {
  %at = arith.constant 17 : i64
  // expected-error@+1 {{offsets [0, 17, 16] in [[0], [], {offsets = [[0, 17, 16], []]}]: expected to grow from 0}}
  %0 = "mesh.annotate"(%x, %at) {sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, "?", 16], []]}]>} : (tensor<16x16xf32>, i64) -> tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @constants_that_end_elsewhere(%x: tensor<16x16xf32>) attributes {mesh_cluster = @g} {
  %at = arith.constant 7 : i64
  // expected-error@+1 {{offsets [0, 3, 7] in [[0], [], {offsets = [[0, 3, 7], []]}] end at 7: expected the dimension's size, 16}}
  %0 = "mesh.annotate"(%x, %at) {sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, 3, "?"], []]}]>} : (tensor<16x16xf32>, i64) -> tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @open_at_offsets(%x: tensor<16x16xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{dimension 0 is open in [[0], [], {offsets = [[0, 3, 16], []], open = [0]}], but its shards begin at offsets, for a fixed number of devices: close it}}
  %0 = "mesh.annotate"(%x) {sharding = [[0], [], {offsets = [[0, 3, 16], []], open = [0]}]} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
"mesh.cluster"() {sym_name = "h", rank = 1 : i64, dim_sizes = [2], device_ids = [1, 0]} : () -> ()
// expected-error@+1 {{function @two_grids has tensors on grids of 2 and of 16 devices, and @h(2) has an order of its own: declare parts of one grid, by 'mesh.sub_cluster'}}
func.func @two_grids(%x: tensor<16x16xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %y: tensor<16x16xf32> {mesh.sharding = #mesh.shard<@h, [[0]]>}) {
  return
}
