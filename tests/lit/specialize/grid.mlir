// A grid of unknown size, which the program asks for its size: known from --grid, or from the ranks.
//
// RUN: shard-opt %s --specialize=grid=2x3 | filecheck %s
// RUN: shard-run %s --shapes=6x8 --grid=2x3 --check | filecheck %s --check-prefix=RAN

// CHECK: dim_sizes = [2, 3]
// CHECK: tensor<?x8xf32>
// CHECK: linalg.fill {{.*}} -> tensor<2x3xf32>
// RAN: on 6 devices
// RAN: check passed
shard.grid @g(shape = ?x3)
func.func @main(%x: tensor<?x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> (tensor<?x8xf32>, tensor<?x?xf32>) {
  %n:2 = shard.grid_shape @g : index, index
  %e = tensor.empty(%n#0, %n#1) : tensor<?x?xf32>
  %z = arith.constant 2.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %y = math.exp %x : tensor<?x8xf32>
  return %y, %f : tensor<?x8xf32>, tensor<?x?xf32>
}
