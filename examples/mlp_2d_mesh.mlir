// mlp_2d.mlir in the RFC's vocabulary. Both products are said to be partial sums; how the weights
// lie follows from that.
"mesh.cluster"() {sym_name = "grid", rank = 3 : i64, dim_sizes = [2, 2, 2]} : () -> ()

func.func @main(%x: tensor<2x4x8xf32>, %w1: tensor<8x32xf32>, %w2: tensor<32x8xf32>)
    -> tensor<2x4x8xf32> attributes {mesh_cluster = @grid} {
  %xs = "mesh.annotate"(%x) {sharding = [[], [], [0, 1, 2]], required = true}
      : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>

  %f0 = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<2x4x32xf32>
  %h_init = tensor.empty() : tensor<2x4x32xf32>
  %h_zero = linalg.fill ins(%f0 : f32) outs(%h_init : tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %h = linalg.contract
      indexing_maps = [affine_map<(b, s, n, k) -> (b, s, k)>,
                       affine_map<(b, s, n, k) -> (k, n)>,
                       affine_map<(b, s, n, k) -> (b, s, n)>]
      ins(%xs, %w1 : tensor<2x4x8xf32>, tensor<8x32xf32>)
      outs(%h_zero : tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %hp = "mesh.annotate"(%h) {sharding = [[], [], [1, 2], [0]], required = true}
      : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %relu = arith.maximumf %hp, %zeros : tensor<2x4x32xf32>
  %y_init = tensor.empty() : tensor<2x4x8xf32>
  %y_zero = linalg.fill ins(%f0 : f32) outs(%y_init : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %y = linalg.contract
      indexing_maps = [affine_map<(b, s, n, k) -> (b, s, k)>,
                       affine_map<(b, s, n, k) -> (k, n)>,
                       affine_map<(b, s, n, k) -> (b, s, n)>]
      ins(%relu, %w2 : tensor<2x4x32xf32>, tensor<32x8xf32>)
      outs(%y_zero : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %yp = "mesh.annotate"(%y) {sharding = [[], [], [0], [1, 2]], required = true}
      : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %ys = "mesh.annotate"(%yp) {sharding = [[], [], [0, 1, 2]], required = true, as_result = false}
      : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return %ys : tensor<2x4x8xf32>
}
