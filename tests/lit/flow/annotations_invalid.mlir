// Annotations in regions through which no values are known to flow are refused, in bodies too; and so
// is a constant that would be a part of a sum on each device.
//
// RUN: shard-opt %s --propagate --materialize --split-input-file --verify-diagnostics

shard.grid @g(shape = 2)
func.func @generate(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %r = tensor.generate {
  ^bb0(%i: index):
    // expected-error @+1 {{is inside a region of a 'tensor.generate' op: that is not read yet}}
    %xs = shard.shard %x to %s : tensor<4xf32>
    %v = tensor.extract %xs[%i] : tensor<4xf32>
    tensor.yield %v : f32
  } : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @generic(%x: tensor<4xf32>, %e: tensor<4xf32>, %at: index) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%e : tensor<4xf32>) {
  ^bb0(%out: f32):
    // expected-error @+1 {{is inside a region of a 'linalg.generic' op: that is not read yet}}
    %xs = shard.shard %x to %s : tensor<4xf32>
    %v = tensor.extract %xs[%at] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @partial(%q: i1) -> tensor<4xf32> {
  %0 = scf.if %q -> tensor<4xf32> {
    %one = arith.constant 1.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %f = linalg.fill ins(%one : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{no version of the value leads to [[], [0]]}}
    scf.yield %f : tensor<4xf32>
  } else {
    %k = arith.constant dense<0.0> : tensor<4xf32>
    scf.yield %k : tensor<4xf32>
  } {mesh.shardings = [#mesh.shard<@g, [[], [0]]>]}
  return %0 : tensor<4xf32>
}
