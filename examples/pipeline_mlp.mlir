// Two layers as two stages of a pipeline, on two devices each: the first row of the grid computes
// the first layer, the second row the second one, and in each row the weights are split.
//
//   @grid   0 1   @first
//           2 3   @second
//
// mpiexec -n 4 python -m shard_dialect.run examples/pipeline_mlp.mlir --backend=mpi --check
"mesh.cluster"() {sym_name = "grid", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "first", cluster = @grid, offsets = [0, 0], sizes = [1, 2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "second", cluster = @grid, offsets = [1, 0], sizes = [1, 2]} : () -> ()

func.func @main(
    %x: tensor<4x8xf32>,
    %w1: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@first, [[], [1]]>},
    %v1: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@first, [[1], []]>},
    %w2: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@second, [[], [1]]>},
    %v2: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@second, [[1], []]>}) -> tensor<4x8xf32> {
  %0 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
      : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = stablehlo.tanh %0 : tensor<4x16xf32>
  %2 = stablehlo.dot_general %1, %v1, contracting_dims = [1] x [0]
      : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>

  %3 = "mesh.collective_permute"(%2) {cluster = @second} : (tensor<4x8xf32>) -> tensor<4x8xf32>

  %4 = stablehlo.dot_general %3, %w2, contracting_dims = [1] x [0]
      : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %5 = stablehlo.tanh %4 : tensor<4x16xf32>
  %6 = stablehlo.dot_general %5, %v2, contracting_dims = [1] x [0]
      : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}
