// A tensor in another's place is written over in a branch, and read behind it.
//
// RUN: shard-run %s --check | filecheck %s
// CHECK: check passed

shard.grid @g(shape = 2)
func.func @main(%x: tensor<12xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %which: tensor<i1>) -> (tensor<12xf32>, tensor<12xf32>) {
  %room = bufferization.alloc_tensor() : tensor<12xf32>
  %y = bufferization.materialize_in_destination %x in %room : (tensor<12xf32>, tensor<12xf32>) -> tensor<12xf32>
  %is = tensor.extract %which[] : tensor<i1>
  %r = scf.if %is -> tensor<12xf32> {
    %e = math.exp2 %y : tensor<12xf32>
    scf.yield %e : tensor<12xf32>
  } else {
    scf.yield %x : tensor<12xf32>
  }
  %a = math.absf %y : tensor<12xf32>
  return %r, %a : tensor<12xf32>, tensor<12xf32>
}
