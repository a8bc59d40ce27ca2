// RUN: shard-opt %s --split-input-file --verify-diagnostics --propagate

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @shapes_differ(%x: tensor<4xf32>, %y: tensor<8xf32>) {
  "mesh.sharding_group"(%x) {group_id = 7 : i64} : (tensor<4xf32>) -> ()
  // expected-error@+1 {{groups a tensor of shape [8] with one of shape [4]: expected known and equal shapes}}
  "mesh.sharding_group"(%y) {group_id = 7 : i64} : (tensor<8xf32>) -> ()
  return
}

// -----

shard.grid @g(shape = 4)
func.func @across_a_manual_boundary(%x: tensor<8xf32>, %y: tensor<2xf32>) -> tensor<8xf32> {
  // expected-note@+1 {{the first of the group}}
  "mesh.sharding_group"(%y) {group_id = 7 : i64} : (tensor<2xf32>) -> ()
  %0 = scf.execute_region -> tensor<8xf32> {
    %l = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0]]>, manual_axes = [0]} : (tensor<8xf32>) -> tensor<2xf32>
    // expected-error@+1 {{'mesh.sharding_group' op groups a tensor with one on the other side of a manual computation, where it is local: group those of one side}}
    "mesh.sharding_group"(%l) {group_id = 7 : i64} : (tensor<2xf32>) -> ()
    %2 = "mesh.to_global"(%l) {sharding = #mesh.shard<@g, [[0]]>, manual_axes = [0]} : (tensor<2xf32>) -> tensor<8xf32>
    scf.yield %2 : tensor<8xf32>
  } {mesh.manual_axes = [0]}
  return %0 : tensor<8xf32>
}
