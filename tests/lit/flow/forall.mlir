// What the iterations of an `scf.forall` write to is whole on every device, and so is what they
// write: parts of it are named by places in the whole.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s --check-prefix=WHOLE
// RUN: shard-run %s --check | filecheck %s

// WHOLE: mesh.all_gather
// WHOLE: scf.forall {{.*}} -> (tensor<4x4xf32>) {
// WHOLE-NOT: "mesh.
// WHOLE: scf.forall.in_parallel
// CHECK: check passed

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<4x4xf32>
  %r = scf.forall (%i) in (4) shared_outs(%o = %xs) -> tensor<4x4xf32> {
    %row = tensor.extract_slice %xs[%i, 0] [1, 4] [1, 1] : tensor<4x4xf32> to tensor<1x4xf32>
    %sine = math.sin %row : tensor<1x4xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %sine into %o[%i, 0] [1, 4] [1, 1]
        : tensor<1x4xf32> into tensor<4x4xf32>
    }
  }
  return %r : tensor<4x4xf32>
}
