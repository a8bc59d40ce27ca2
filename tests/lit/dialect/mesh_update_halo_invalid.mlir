// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_split(%x: tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>) {
  // expected-error@+1 {{'mesh.update_halo' op [[1], []] and [[0], [], {halo = [[1, 2], []]}] differ in more than halos}}
  %0 = "mesh.update_halo"(%x) : (tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @partial(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [], [1]]>>) {
  // expected-error@+1 {{'mesh.update_halo' op parts of a sum have no halos, found [[0], [], [1]]}}
  %0 = "mesh.update_halo"(%x) : (tensor<8x8xf32, #mesh.shard<@g, [[0], [], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], [1], {halo = [[1, 2], []]}]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @unknown_size(%x: tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>) {
  // expected-error@+1 {{'mesh.update_halo' op a halo in sharding [[1], [], {halo = [["?", 0], []]}] is not known before the program runs}}
  %0 = "mesh.update_halo"(%x) : (tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], [], {halo = [["?", 0], []]}]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_tensor(%x: tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>) {
  // expected-error@+1 {{'mesh.update_halo' op has different global tensors as its operand and its result}}
  %0 = "mesh.update_halo"(%x) : (tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>) -> tensor<16x8xf32, #mesh.shard<@g, [[1], [], {halo = [[1, 0], []]}]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_collective(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1], {halo = [[1, 0], []]}]>>) {
  // expected-error@+1 {{'mesh.all_gather' op is on a tensor with halos: only 'mesh.update_halo' drops them}}
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[], [1]]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1], {halo = [[1, 0], []]}]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], {halo = [[1, 0], []]}]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
// expected-error@+1 {{fill is "xor": expected one of sum, max, min, product, average, bitwise_and, bitwise_or, bitwise_xor, and a halo}}
func.func @filled_with_nothing_known(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [], {fill = "xor", halo = [[1, 0], []]}]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
// expected-error@+1 {{fill is "max": expected one of sum, max, min, product, average, bitwise_and, bitwise_or, bitwise_xor, and a halo}}
func.func @filled_without_a_halo(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [], {fill = "max"}]>>) {
  return
}
