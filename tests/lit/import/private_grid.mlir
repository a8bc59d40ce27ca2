// A private grid stays private, in each form and when it is written back.
//
// RUN: shard-opt %s --import | filecheck %s --check-prefix=IMPORTED
// RUN: shard-opt %s --propagate --export-shard | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-opt %s --import --export-shard | filecheck %s

// IMPORTED: mesh.cluster {{.*}}sym_visibility = "private"
// CHECK: shard.grid @g(shape = 2) {sym_visibility = "private"}
shard.grid "private" @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
