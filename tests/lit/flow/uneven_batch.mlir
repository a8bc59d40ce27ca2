// An uneven batch, merged with the positions and taken apart again, stays where it is: the merged
// dimension is split at offsets.
// RUN: shard-opt %s --propagate --materialize | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=DEVICES
// RUN: shard-opt %s --propagate --export-sdy | filecheck %s --check-prefix=SDY
// RUN: shard-opt %s --spmd --prove 2>&1 | filecheck %s --check-prefix=PROOF

// CHECK: stablehlo.reshape %arg0
// CHECK-SAME: -> tensor<28x8xf32, #mesh.shard<@g, {{\[\[}}0], [], {offsets = {{\[\[}}0, 16, 28], []]}]>>
// CHECK: stablehlo.add
// CHECK-SAME: tensor<28x6xf32, #mesh.shard<@g, {{\[\[}}0], [], {offsets = {{\[\[}}0, 16, 28], []]}]>>
// CHECK: stablehlo.reshape
// CHECK-SAME: -> tensor<7x4x6xf32, #mesh.shard<@g, {{\[\[}}0], [], []]>>
// DEVICES: no communication
// DEVICES: check passed
// PROOF: note: proven

// Shardy has no offsets: inferred ones are left out.
// SDY: stablehlo.reshape %arg0
// SDY-SAME: sdy.sharding_per_value<[<@g, [{"axis_0"}, {}]>]>
mesh.cluster @g(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<7x4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], []]>}, %w: tensor<8x6xf32>, %b: tensor<6xf32>)
    -> (tensor<7x4x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], []]>}) {
  %0 = stablehlo.reshape %x : (tensor<7x4x8xf32>) -> tensor<28x8xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<28x8xf32>, tensor<8x6xf32>) -> tensor<28x6xf32>
  %2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<6xf32>) -> tensor<28x6xf32>
  %3 = stablehlo.add %1, %2 : tensor<28x6xf32>
  %4 = stablehlo.reshape %3 : (tensor<28x6xf32>) -> tensor<7x4x6xf32>
  return %4 : tensor<7x4x6xf32>
}
