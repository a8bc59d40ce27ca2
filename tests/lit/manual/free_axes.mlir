// Axes that are not manual pass through the edges of a manual computation, and split what is inside.
//
// RUN: shard-opt %s --propagate --import  | filecheck %s --check-prefix=PROPAGATED
// RUN: shard-opt %s --propagate --materialize --import  | filecheck %s --check-prefix=DISTRIBUTED
// RUN: shard-opt %s --spmd --import  | filecheck %s --check-prefix=LOCAL
// RUN: shard-run %s --check --reference=%S/Inputs/free_axes_unsharded.mlir | filecheck %s --check-prefix=RESULT

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()

// PROPAGATED: func.func @main(%arg0: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@m, {{\[}}[0], [1]]>}
// PROPAGATED: mesh.to_local %arg0 {{.*}}mesh.shardings = [#mesh.shard<@m, {{\[}}[0], []]>]
// PROPAGATED: stablehlo.tanh {{.*}}mesh.shardings = [#mesh.shard<@m, {{\[}}[0], []]>]
// PROPAGATED: "stablehlo.all_reduce"
// PROPAGATED: }) {mesh.shardings = [#mesh.shard<@m, {{\[}}[0], []]>]}
// PROPAGATED: mesh.to_global{{.*}}mesh.shardings = [#mesh.shard<@m, {{\[}}[0], []]>]

// DISTRIBUTED: scf.execute_region -> tensor<8x4xf32, #mesh.shard<@m, {{\[}}[0], []]>> no_inline {
// DISTRIBUTED-NEXT: %[[A:.*]] = mesh.to_local %arg0 {manual_axes = [1], sharding = #mesh.shard<@m, {{\[}}[0], [1]]>} : {{.*}} -> tensor<8x4xf32, #mesh.shard<@m, {{\[}}[0], []]>>
// DISTRIBUTED-NEXT: stablehlo.tanh %[[A]]

// LOCAL: func.func @main(%arg0: tensor<4x4xf32>
// LOCAL-NEXT: %[[T:.*]] = stablehlo.tanh %arg0 : tensor<4x4xf32>
// LOCAL-NEXT: %[[S:.*]] = shard.all_reduce %[[T]] on @m grid_axes = [1] : tensor<4x4xf32> -> tensor<4x4xf32>
// LOCAL-NEXT: return %[[S]] : tensor<4x4xf32>

// RESULT: check passed
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{"x", ?}, {?}]>}) -> tensor<8x4xf32> {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{?}, {"y", ?}]>]>,
      manual_axes = #sdy<manual_axes{"y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{?}, {?}]>]>}> ({
  ^bb0(%a: tensor<8x4xf32>):
    %1 = stablehlo.tanh %a : tensor<8x4xf32>
    %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      %t = "sdy.sharding_constraint"(%s) <{sharding = #sdy.sharding<@m, []>}> : (tensor<f32>) -> tensor<f32>
      stablehlo.return %t : tensor<f32>
    }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    "sdy.return"(%2) : (tensor<8x4xf32>) -> ()
  }) : (tensor<8x16xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
