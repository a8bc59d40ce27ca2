// Each device does the work of its own stage, in branches; all devices meet outside of them.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-opt %s --spmd --lower | filecheck %s --check-prefix=LOWERED
// RUN: not shard-opt %s --propagate --materialize --partition='results=whole' 2>&1 | filecheck %s --check-prefix=WHOLE

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "first", cluster = @g, offsets = [0, 0], sizes = [1, 2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "second", cluster = @g, offsets = [1, 0], sizes = [1, 2]} : () -> ()

// Two batches, each passed on as soon as it is there. Devices of the second stage take no part in
// the branches of the first.
//
// CHECK-LABEL: func.func @main
// CHECK-SAME: shard_dialect.stage = @first}
// CHECK-SAME: shard_dialect.stage = @second}
// CHECK: %[[INDICES:.*]] = arith.constant dense<[0, 1]> : tensor<2xi64>
// CHECK: shard.all_slice %[[INDICES]] on @g grid_axes = [0]
// CHECK: %[[OWN:.*]] = arith.index_cast
// CHECK: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK: %[[IS_FIRST:.*]] = arith.cmpi eq, %[[OWN]], %[[ZERO]]
// CHECK: %[[A:.*]] = scf.if %[[IS_FIRST]]
// CHECK-NEXT: stablehlo.tanh %arg0
// CHECK-NEXT: scf.yield
// CHECK-NEXT: } else {
// CHECK-NEXT: arith.constant dense<0.000000e+00> : tensor<4x4xf32>
// CHECK-NEXT: scf.yield
// CHECK: %[[A2:.*]] = "mesh.collective_permute"(%[[A]]) {cluster = @g, mesh_axis = [0], permutation = [1, -1]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[B:.*]] = scf.if
// CHECK-NEXT: stablehlo.tanh %arg1
// CHECK: %[[B2:.*]] = "mesh.collective_permute"(%[[B]])
// CHECK: %[[R:.*]] = scf.if
// CHECK-NEXT: stablehlo.add %[[A2]], %[[B2]]
// CHECK: shard.all_reduce {{.*}} on @g grid_axes = [1]
// CHECK: } else {
// CHECK: return %[[R]]
// LOWERED: shard_dialect.stage = @second
// LOWERED: scf.if
// LOWERED: call @mesh_all_reduce
// LOWERED-NOT: shard_dialect.stages
// WHOLE: stages.mlir:[[#]]:1: error: @main has stages, whose devices alone have the results: they cannot be unsharded on every device
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@first, [[], [1]]>},
                %y: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@first, [[], [1]]>},
                %w: tensor<8x4xf32> {mesh.sharding = #mesh.shard<@second, [[1], []]>})
    -> (tensor<4x4xf32> {mesh.sharding = #mesh.shard<@second, [[], []]>}) {
  %a = stablehlo.tanh %x : tensor<4x8xf32>
  %a2 = "mesh.collective_permute"(%a) {cluster = @second} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = stablehlo.tanh %y : tensor<4x8xf32>
  %b2 = "mesh.collective_permute"(%b) {cluster = @second} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = stablehlo.add %a2, %b2 : tensor<4x8xf32>
  %0 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// All devices have what is no tensor: stages may share it.
//
// CHECK-LABEL: func.func @scalars
// CHECK-SAME: %arg2: index)
// CHECK: scf.if
// CHECK: scf.for {{.*}} to %arg2
// CHECK: scf.if
// CHECK: scf.for {{.*}} to %arg2
func.func @scalars(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@first, [[1]]>},
                   %y: tensor<4xf32> {mesh.sharding = #mesh.shard<@second, [[1]]>}, %n: index)
    -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%r = %x) -> (tensor<4xf32>) {
    %a = stablehlo.tanh %r : tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  }
  %1 = scf.for %i = %c0 to %n step %c1 iter_args(%r = %y) -> (tensor<4xf32>) {
    %a = stablehlo.tanh %r : tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// A transfer may be written between all devices, too: each gets what it lacks.
//
// CHECK-LABEL: func.func @among_all
// CHECK: "mesh.collective_permute"({{.*}}) {cluster = @g, mesh_axis = [0], permutation = [1, 0]} : (tensor<2x4xf32>) -> tensor<2x4xf32>
func.func @among_all(%x: tensor<4x8xf32, #mesh.shard<@g, [[0], [1]]>>)
    -> tensor<4x8xf32, #mesh.shard<@g, [[], [1]]>> attributes {mesh.form = "distributed"} {
  %0 = "mesh.collective_permute"(%x) {cluster = @g, shard_dialect.stages = [@g, @g]}
    : (tensor<4x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<4x8xf32, #mesh.shard<@g, [[], [1]]>>
  return %0 : tensor<4x8xf32, #mesh.shard<@g, [[], [1]]>>
}
