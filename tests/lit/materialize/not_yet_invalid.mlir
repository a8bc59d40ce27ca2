// What is propagated, and cannot be cut yet, is refused where it stands.
//
// RUN: shard-opt %s --propagate --materialize --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @halos(%x: tensor<16x16xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{cannot shard a tensor as [[0], [], {halo = [[1, 1], []]}]: halos are exchanged where an op reads them}}
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0], [], {halo = [[1, 1], []]}]>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
func.func @offsets(%x: tensor<16x16xf32>) attributes {mesh_cluster = @g} {
  %at = arith.constant 3 : i64
  // expected-error@+1 {{cannot shard a tensor as [[0], [], {offsets = [[0, "?", 16], []]}]: its offsets are not known yet}}
  %0 = "mesh.annotate"(%x, %at) {sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, "?", 16], []]}]>} : (tensor<16x16xf32>, i64) -> tensor<16x16xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
"mesh.cluster"() {sym_name = "h", rank = 1 : i64, dim_sizes = [2]} : () -> ()
// expected-error@+1 {{function @two_grids has tensors on @g(2x8) and on @h(2): expected grids of as many devices}}
func.func @two_grids(%x: tensor<16x16xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %y: tensor<16x16xf32> {mesh.sharding = #mesh.shard<@h, [[0]]>}) {
  return
}
