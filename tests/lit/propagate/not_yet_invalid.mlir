// What is read, checked and converted, and not propagated yet, is refused where it stands.
//
// RUN: shard-opt %s --propagate --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @sizes_that_are_not_known(%x: tensor<?xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{sharding [[0]] is on a tensor of unknown size: give sizes, as in shard-opt --specialize="shapes={7x5}"}}
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_place(%x: tensor<16x16xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.idx' op is of the local form: here tensors are global}}
  %0 = "mesh.idx"() : () -> index
  return
}

// -----

shard.grid @g(shape = 2x8)
func.func @a_place_in_upstreams_words(%x: tensor<16x16xf32>) {
  // expected-error@+1 {{'shard.process_linear_index' op is of the local form: here tensors are global}}
  %0 = shard.process_linear_index on @g : index
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @a_loop_too_many(%x: tensor<16x16xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'math.tanh' op has sharding for 3 loops: it has 2}}
  %0 = math.tanh %x {sharding = [[0], [], [1]]} : tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{an argument is annotated [[], [], [0]]: only a value that an op makes can be partial}}
func.func @a_partial_argument(%x: tensor<16x16xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [0]]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64} : () -> ()
// expected-error@+1 {{grid @g(?) of function @unknown_sizes_of_the_grid has unknown sizes: give them, to opt with --specialize=grid=..., to run with --grid=...}}
func.func @unknown_sizes_of_the_grid(%x: tensor<16x16xf32>) {
  return
}
