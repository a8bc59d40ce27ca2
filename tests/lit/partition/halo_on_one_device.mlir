// A halo along an axis of one device: all of the tensor, with the fill around it, in both branches.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check

shard.grid @g(shape = 1x2)

// CHECK-LABEL: func.func @main
// CHECK: scf.if {{.*}} -> (tensor<16x8xf32>)
func.func @main(%x: tensor<12x8xf32>, %choose: tensor<i1>, %y: tensor<12x8xf32>) -> tensor<12x8xf32> {
  %chosen = tensor.extract %choose[] : tensor<i1>
  %0 = tosa.abs %x : (tensor<12x8xf32>) -> tensor<12x8xf32>
  %1 = scf.if %chosen -> (tensor<12x8xf32>) {
    scf.yield %0 : tensor<12x8xf32>
  } else {
    scf.yield %y : tensor<12x8xf32>
  }
  %2 = "mesh.annotate"(%1) {sharding = #mesh.shard<@g, [[0], [], {halo = [[2, 2], []]}]>, required = true, as_result = true} : (tensor<12x8xf32>) -> tensor<12x8xf32>
  %3 = math.exp %2 : tensor<12x8xf32>
  return %3 : tensor<12x8xf32>
}
