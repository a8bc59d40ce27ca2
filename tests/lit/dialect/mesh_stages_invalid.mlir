// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0], sizes = [1]} : () -> ()
// expected-error@+1 {{'func.func' op stage @g is not declared; the parts of grids: @a}}
func.func @no_part(%x: tensor<8xf32> {shard_dialect.stage = @g}) {
  return
}

// -----

// expected-error@+1 {{'func.func' op shard_dialect.stage is "a": expected the name of a stage}}
func.func @no_name(%x: tensor<8xf32> {shard_dialect.stage = "a"}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0], sizes = [1]} : () -> ()
func.func @one(%x: tensor<8xf32>) {
  // expected-error@+1 {{'mesh.collective_permute' op shard_dialect.stages is [@a]: expected the names of two stages}}
  %0 = "mesh.collective_permute"(%x) {cluster = @g, mesh_axis = [0], permutation = [1, 0], shard_dialect.stages = [@a]} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0], sizes = [1]} : () -> ()
func.func @unknown(%x: tensor<8xf32>) {
  // expected-error@+1 {{'mesh.collective_permute' op stage @b is not declared; the parts of grids: @a}}
  %0 = "mesh.collective_permute"(%x) {cluster = @g, mesh_axis = [0], permutation = [1, 0], shard_dialect.stages = [@a, @b]} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0], sizes = [1]} : () -> ()
func.func @along_nothing(%x: tensor<8xf32>) {
  // expected-error@+1 {{'mesh.collective_permute' op has shard_dialect.stages, and no cluster that they are parts of}}
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0], permutation = [1, 0], shard_dialect.stages = [@a, @a]} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// expected-error@+1 {{'mesh.cluster' op stage_axes has axis 1 of a cluster of rank 1}}
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2], stage_axes = [1]} : () -> ()
