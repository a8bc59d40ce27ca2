// What torch-mlir writes: results with dimensions of size 1 that no loop counts, tables of which
// elements are looked up with assertions, and constants in resources.
//
// RUN: shard-run %s --backend=xla --check --seed=3 | filecheck %s
// REQUIRES: jaxlib

// CHECK: all_reduce 0 2 4x1xf32 4x1xf32
// CHECK: check passed

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0, 0)>
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x6xf32>, %i: tensor<4xi1>) -> (tensor<4x1xf32>, tensor<4x2xf32>) {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<4x6xf32>
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x1xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<4x1xf32>) -> tensor<4x1xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%xs : tensor<4x6xf32>) outs(%z : tensor<4x1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %q = arith.addf %a, %b : f32
    linalg.yield %q : f32
  } -> tensor<4x1xf32>
  %t = arith.constant dense_resource<table> : tensor<2x2xf32>
  %f = tensor.empty() : tensor<4x2xf32>
  %l = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0)>, #id], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<4xi1>) outs(%f : tensor<4x2xf32>) {
  ^bb0(%at: i1, %b: f32):
    %two = arith.constant 2 : index
    %k = arith.index_castui %at : i1 to index
    %j = linalg.index 1 : index
    %in = arith.cmpi slt, %k, %two : index
    cf.assert %in, "index must be smaller than dim size"
    %v = tensor.extract %t[%k, %j] : tensor<2x2xf32>
    linalg.yield %v : f32
  } -> tensor<4x2xf32>
  return %r, %l : tensor<4x1xf32>, tensor<4x2xf32>
}
{-#
  dialect_resources: {
    builtin: {
      table: "0x040000000000803F000000400000404000008040"
    }
  }
#-}
