// A region reads tensors that are whole; one that is cut would be read at the wrong place.
//
// RUN: not shard-opt %s --partition 2>&1 | filecheck %s

// CHECK: regions_stay_whole.mlir:{{[0-9]+}}:8: error: 'linalg.generic' op has a region with a 'tensor.extract' op on a sharded tensor: inside regions tensors must be replicated

#id = affine_map<(i) -> (i)>
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32>
    attributes {mesh.form = "distributed"} {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]}
      outs(%e : tensor<4xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %v = tensor.extract %x[%i] : tensor<4xf32, #mesh.shard<@g, [[0]]>>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
