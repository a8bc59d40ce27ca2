// RUN: shard-opt %s --verify-diagnostics --propagate

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @shapes_differ(%x: tensor<4xf32>, %y: tensor<8xf32>) {
  "mesh.sharding_group"(%x) {group_id = 7 : i64} : (tensor<4xf32>) -> ()
  // expected-error@+1 {{groups a tensor of shape [8] with one of shape [4]: expected known and equal shapes}}
  "mesh.sharding_group"(%y) {group_id = 7 : i64} : (tensor<8xf32>) -> ()
  return
}
