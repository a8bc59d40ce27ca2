// The RFC's short form of a sharding gets the grid of its function's mesh_cluster.
//
// RUN: shard-opt %s | filecheck %s

"mesh.cluster"() {sym_name = "a", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.cluster"() {sym_name = "b", rank = 1 : i64, dim_sizes = [4]} : () -> ()

// CHECK{LITERAL}: func.func @on_a(%arg0: tensor<4x8xf32, #mesh.shard<@a, [[0]]>>)
func.func @on_a(%x: tensor<4x8xf32, #mesh.shard<[[0]]>>) attributes {mesh_cluster = @a} {
  return
}

// CHECK{LITERAL}: func.func @on_b(%arg0: tensor<4x8xf32, #mesh.shard<@b, [[], [0]]>>)
func.func @on_b(%x: tensor<4x8xf32, #mesh.shard<[[], [0]]>>) attributes {mesh_cluster = @b} {
  return
}
