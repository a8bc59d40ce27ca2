// Halos of tensors and of buffers are exchanged between neighbours; the operand holds them too.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)

// CHECK-LABEL: func.func @buffer
func.func @buffer(%x: memref<12x12xi8>, %h: i64) -> memref<12x12xi8> {
  // CHECK{LITERAL}: shard.update_halo %arg0 on @g split_axes = [[0]] halo_sizes = [2, %arg1] : memref<12x12xi8>
  %0 = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [2, %h] : memref<12x12xi8>
  // CHECK{LITERAL}: on @g split_axes = [[], [1, 2]] halo_sizes = [4, 4] : memref<12x12xi8>
  %1 = shard.update_halo %0 on @g split_axes = [[], [1, 2]] halo_sizes = [4, 4] : memref<12x12xi8>
  return %1 : memref<12x12xi8>
}

// CHECK-LABEL: func.func @tensor
func.func @tensor(%x: tensor<303x?xi64>) -> tensor<303x?xi64> {
  // CHECK{LITERAL}: on @g split_axes = [[0], [1]] halo_sizes = [1, 2, 3, 4] : tensor<303x?xi64>
  %0 = shard.update_halo %x on @g split_axes = [[0], [1]] halo_sizes = [1, 2, 3, 4]
      : tensor<303x?xi64>
  return %0 : tensor<303x?xi64>
}
