// Sizes of arguments and of the grid, both given: to TOSA, which infers.
//
// RUN: shard-opt %s --specialize="shapes=4x6x8 grid=3x2" | filecheck %s
// RUN: shard-run %s --shapes=4x6x8 --grid=3x2 --check | filecheck %s --check-prefix=RAN
// RUN: shard-run %s --shapes=5x6x8 --grid=2x2 --check | filecheck %s --check-prefix=RAN

// CHECK: dim_sizes = [3, 2]
// CHECK: tosa.matmul {{.*}} -> tensor<1x24x16xf32>
// CHECK: return %{{.*}} : tensor<4x6x16xf32>
// RAN: check passed

shard.grid @g(shape = ?x2)
func.func @main(%x: tensor<?x6x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %w: tensor<1x8x16xf32>) -> tensor<?x6x16xf32> {
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %s = tosa.const_shape {values = dense<[1, -1, 8]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %a = tosa.exp %x : (tensor<?x6x8xf32>) -> tensor<?x6x8xf32>
  %r = tosa.reduce_max %a {axis = 2 : i32} : (tensor<?x6x8xf32>) -> tensor<?x6x1xf32>
  %b = tosa.sub %a, %r : (tensor<?x6x8xf32>, tensor<?x6x1xf32>) -> tensor<?x6x8xf32>
  %f = tosa.reshape %b, %s : (tensor<?x6x8xf32>, !tosa.shape<3>) -> tensor<1x?x8xf32>
  %m = tosa.matmul %f, %w, %z, %z : (tensor<1x?x8xf32>, tensor<1x8x16xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x?x16xf32>
  %s2 = tosa.const_shape {values = dense<[-1, 6, 16]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %o = tosa.reshape %m, %s2 : (tensor<1x?x16xf32>, !tosa.shape<3>) -> tensor<?x6x16xf32>
  return %o : tensor<?x6x16xf32>
}
