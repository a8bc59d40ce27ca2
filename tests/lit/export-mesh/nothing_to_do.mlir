// What is in the RFC's words stays as it is, with its clusters, places and permutations.
//
// RUN: shard-opt %s > %t.before
// RUN: shard-opt %s --export-mesh | diff - %t.before
// RUN: shard-opt %s --export-mesh | filecheck %s

// CHECK: mesh.cluster
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "part", cluster = @g, offsets = [0, 0], sizes = [1, 2]} : () -> ()
func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> (tensor<4xf32>, index, index) {
  %0 = "mesh.annotate"(%x) {as_result = true, required = false, sharding = #mesh.shard<@g, [[0]]>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.idx"() {cluster = @g, mesh_axis = [0]} : () -> index
  %2 = "mesh.size"() {cluster = @part} : () -> index
  return %0, %1, %2 : tensor<4xf32>, index, index
}
