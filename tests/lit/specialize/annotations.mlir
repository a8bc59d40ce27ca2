// What is said of tensors stays, in any vocabulary: where nothing reads what an annotation makes, where the
// op that has it is replaced, between StableHLO's ops, and at the edges of manual computations.
//
// RUN: shard-opt %s --split-input-file --specialize=shapes=4x8 --import | filecheck %s

// CHECK: func.func @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: mesh.annotate %arg0 {as_result = true
shard.grid @g(shape = 2)
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %unread = shard.shard %x to %s : tensor<?x8xf32>
  %t = math.exp %x : tensor<?x8xf32>
  return %t : tensor<?x8xf32>
}

// -----

// CHECK: %[[ONES:.*]] = stablehlo.broadcast_in_dim {{.*}} -> tensor<4x8xf32>
// CHECK: mesh.annotate %[[ONES]]
// CHECK: mesh.annotate
// CHECK: mesh.to_local {{.*}} -> tensor<2x8xf32>
// CHECK: stablehlo.exponential %{{.*}} : tensor<2x8xf32>
// CHECK: mesh.to_global {{.*}} -> tensor<4x8xf32>
// CHECK: mesh.sharding_group {{.*}} {{.*}} : tensor<4x8xf32>
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "g"}> : () -> ()
func.func public @main(%x: tensor<?x8xf32> {sdy.sharding = #sdy.sharding<@g, [{"x"}, {}]>}) -> tensor<?x8xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %d = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
  %d1 = stablehlo.reshape %d : (tensor<i32>) -> tensor<1xi32>
  %eight = stablehlo.constant dense<8> : tensor<1xi32>
  %shape = stablehlo.concatenate %d1, %eight, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %ones = stablehlo.dynamic_broadcast_in_dim %one, %shape, dims = [] {sdy.sharding = #sdy.sharding_per_value<[<@g, [{"x"}, {}]>]>} : (tensor<f32>, tensor<2xi32>) -> tensor<?x8xf32>
  %c = "sdy.sharding_constraint"(%ones) <{sharding = #sdy.sharding<@g, [{"x"}, {}]>}> : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %e = stablehlo.add %c, %x : tensor<?x8xf32>
  %m = "sdy.manual_computation"(%e) <{in_shardings = #sdy.sharding_per_value<[<@g, [{"x"}, {}]>]>,
      manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@g, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<?x8xf32>):
    %1 = stablehlo.exponential %a : tensor<?x8xf32>
    "sdy.return"(%1) : (tensor<?x8xf32>) -> ()
  }) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  "sdy.sharding_group"(%m) <{group_id = 0 : i64}> : (tensor<?x8xf32>) -> ()
  return %m : tensor<?x8xf32>
}
