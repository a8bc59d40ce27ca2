// The RFC's short form of a sharding gets the grid of its function's mesh_cluster, and a sharding in
// a type a list for each dimension, so that types that mean the same are the same.
//
// RUN: shard-opt %s | filecheck %s

"mesh.cluster"() {sym_name = "a", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.cluster"() {sym_name = "b", rank = 1 : i64, dim_sizes = [4]} : () -> ()

// CHECK{LITERAL}: func.func @on_a(%arg0: tensor<4x8xf32, #mesh.shard<[[0], []]>>)
func.func @on_a(%x: tensor<4x8xf32, #mesh.shard<[[0]]>>) attributes {mesh_cluster = @a} {
  return
}

// CHECK{LITERAL}: func.func @on_b(%arg0: tensor<4x8xf32, #mesh.shard<[[], [0]]>>)
func.func @on_b(%x: tensor<4x8xf32, #mesh.shard<[[], [0]]>>) attributes {mesh_cluster = @b} {
  return
}

// CHECK-LABEL: func.func @as_long_as_the_rank
// CHECK-SAME{LITERAL}: (%arg0: tensor<4x8xf32, #mesh.shard<[[0], []]>>, %arg1: tensor<?x8x2xcomplex<f32>, #mesh.shard<[[], [], []]>>, %arg2: tensor<4x8xf32, #mesh.shard<[[], [], {sum = [0]}]>>)
func.func @as_long_as_the_rank(
    %x: tensor<4x8xf32, #mesh.shard<[[0], [], []]>>,
    %y: tensor<? x 8x2xcomplex<f32>, #mesh.shard<@b, []>>,
    %z: tensor<4x8xf32, #mesh.shard<[{sum = [0]}]>>) -> tensor<4x8xf32, #mesh.shard<[0], [], []>>
    attributes {mesh_cluster = @b} {
  // CHECK{LITERAL}: stablehlo.tanh %arg0 : tensor<4x8xf32, #mesh.shard<[[0], []]>>
  %0 = mhlo.tanh %x : tensor<4x8xf32, #mesh.shard<[[0]]>>
  // CHECK{LITERAL}: mesh.all_reduce %arg2 {mesh_axis = [0], reduction = "sum"} : tensor<4x8xf32, #mesh.shard<[[], [], {sum = [0]}]>> -> tensor<4x8xf32, #mesh.shard<[[], []]>>
  %1 = mesh.all_reduce %z {mesh_axis = [0], reduction = "sum"} : tensor<4x8xf32, #mesh.shard<[{sum = [0]}]>> -> tensor<4x8xf32, #mesh.shard<@b, []>>
  return %0 : tensor<4x8xf32, #mesh.shard<@b, [[0], []]>>
}
