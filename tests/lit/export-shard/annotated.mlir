// Annotations of each kind in upstream's words, from ours; what stands for an attribute says so.
//
// RUN: shard-opt %s --export-shard | filecheck %s
// RUN: shard-opt %s --export-shard --import > %t.back
// RUN: shard-opt %s --import | diff - %t.back

// CHECK: shard.grid @g(shape = 2x?)
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, -1]} : () -> ()

// CHECK-LABEL: func.func @annotations
// CHECK-SAME: (%arg0: tensor<4x8xf32>, %arg1: f32, %arg2: i64) -> (tensor<4x8xf32>, tensor<4x8xf32>)
func.func @annotations(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %s: f32, %h: i64)
    -> (tensor<4x8xf32>, tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>}) attributes {mesh_cluster = @g} {
  // CHECK-NEXT{LITERAL}: %sharding = shard.sharding @g split_axes = [[0], []] : !shard.sharding
  // CHECK: [[X:%.*]] = shard.shard %arg0 to %sharding {stands_for = "argument"}
  // CHECK-NEXT: [[A:%.*]] = math.tanh [[X]]
  // CHECK: [[B:%.*]] = shard.shard [[A]] to %{{.*}} {stands_for = "op"}
  %0 = math.tanh %x {mesh.shardings = [#mesh.shard<@g, [[0]]>]} : tensor<4x8xf32>
  // CHECK: shard.sharding @g split_axes = {{\[\[}}], [0]] halo_sizes = [1, %arg2]
  // CHECK-NEXT: [[C:%.*]] = shard.shard [[B]] to %{{.*}} annotate_for_users
  %1 = "mesh.annotate"(%0, %h) {sharding = #mesh.shard<@g, [[], [0], {halo = [[], [1, "?"]]}]>, as_result = false}
      : (tensor<4x8xf32>, i64) -> tensor<4x8xf32>
  // CHECK: [[D:%.*]] = shard.shard [[B]] to %{{.*}} annotate_for_users {stands_for = "reshard"}
  %2 = "mesh.reshard"(%0) {sharding = [[], [0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: [[E:%.*]] = shard.shard [[D]] to %{{.*}} annotate_for_users {stands_for = "result"}
  // CHECK-NEXT: return [[C]], [[E]]
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @two_returns
func.func @two_returns(%c: i1, %x: tensor<4xf32>) -> (tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  // CHECK: [[A:%.*]] = shard.shard %arg1 to %{{.*}} annotate_for_users {stands_for = "result"}
  // CHECK-NEXT: return [[A]]
  return %x : tensor<4xf32>
^bb2:
  %0 = math.tanh %x : tensor<4xf32>
  // CHECK: [[B:%.*]] = shard.shard %{{.*}} annotate_for_users {stands_for = "result"}
  // CHECK-NEXT: return [[B]]
  return %0 : tensor<4xf32>
}
