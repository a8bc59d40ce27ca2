// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @split_along_it(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{grid axis 0 is used twice in sharding [[0], [], [0]]}}
  %0 = "mesh.mask"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @of_another_kind(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], {max = [0]}]>>) {
  // expected-error@+1 {{sharding [[], [], {max = [0]}] is partial max, it cannot become partial sum as well}}
  %0 = "mesh.mask"(%x) {mesh_axis = [1], reduction = "sum"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], {max = [0]}]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [], [0, 1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @no_reduction(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{reduction is 'xor': expected one of sum, max, min, product, average, bitwise_and, bitwise_or, bitwise_xor}}
  %0 = "mesh.mask"(%x) {mesh_axis = [1], reduction = "xor"} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], [1]]>>
  return
}
