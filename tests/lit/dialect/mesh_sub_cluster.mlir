// A part of a cluster is a grid of its own: shardings and places may be on it.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [4, 4]} : () -> ()
"mesh.cluster"() {sym_name = "open", rank = 1 : i64} : () -> ()
shard.grid @upstream(shape = 8)

// CHECK: mesh.sub_cluster @lower(cluster = @g, offsets = [2, 0], sizes = [2, 4])
"mesh.sub_cluster"() {sym_name = "lower", cluster = @g, offsets = [2, 0], sizes = [2, 4]} : () -> ()
// CHECK: mesh.sub_cluster @part_of_a_part(cluster = @lower, offsets = [0, 1], sizes = [2, 3])
"mesh.sub_cluster"() {sym_name = "part_of_a_part", cluster = @lower, offsets = [0, 1], sizes = [2, 3]} : () -> ()
// CHECK: mesh.sub_cluster @of_unknown_size(cluster = @open, offsets = [100], sizes = [8])
"mesh.sub_cluster"() {sym_name = "of_unknown_size", cluster = @open, offsets = [100], sizes = [8]} : () -> ()
// CHECK: mesh.sub_cluster @of_a_grid(cluster = @upstream, offsets = [4], sizes = [4])
"mesh.sub_cluster"() {sym_name = "of_a_grid", cluster = @upstream, offsets = [4], sizes = [4]} : () -> ()

// CHECK-LABEL: func.func @on_it
// CHECK-SAME{LITERAL}: tensor<4x8xf32, #mesh.shard<@lower, [[0], [1]]>>
func.func @on_it(%x: tensor<4x8xf32, #mesh.shard<@lower, [[0], [1]]>>) -> index {
  // CHECK: mesh.size {cluster = @lower}
  %0 = "mesh.size"() {cluster = @lower} : () -> index
  return %0 : index
}
