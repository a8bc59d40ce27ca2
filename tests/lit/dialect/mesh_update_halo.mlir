// Each device gets what lies next to its shard as well: the result's type says how much of it.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @one_dimension
func.func @one_dimension(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // CHECK{LITERAL}: mesh.update_halo %arg0 : tensor<8x8xf32, #mesh.shard<@g, [[0], []]>> -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>>
  %0 = "mesh.update_halo"(%x) : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>)
      -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>>
  return
}

// CHECK-LABEL: func.func @two_dimensions_filled_for_a_maximum
func.func @two_dimensions_filled_for_a_maximum(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) {
  // CHECK{LITERAL}: -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1], {fill = "max", halo = [[4, 0], [0, 1]]}]>>
  %0 = "mesh.update_halo"(%x) : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>)
      -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1], {fill = "max", halo = [[4, 0], [0, 1]]}]>>
  return
}

// CHECK-LABEL: func.func @keeps_less
func.func @keeps_less(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>>) {
  // CHECK{LITERAL}: tensor<8x8xf32, #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>> -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  %0 = "mesh.update_halo"(%x) : (tensor<8x8xf32, #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>>)
      -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}
