// What is read, and has no meaning as our annotations, is refused where it stands.
//
// RUN: shard-opt %s --import --split-input-file --verify-diagnostics

shard.grid @g(shape = 2)
func.func @upstreams_and_ours(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[], [0]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{one value is annotated [[], [0]] and [[0], []]}}
  %1 = shard.shard %0 to %s : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @a_constant_of_a_sharded_type() -> tensor<4xf32, #mesh.shard<@g, [[0]]>> {
  // expected-error@+1 {{a constant's type has a sharding: annotate its result instead}}
  %0 = arith.constant dense<0.0> : tensor<4xf32, #mesh.shard<@g, [[0]]>>
  return %0 : tensor<4xf32, #mesh.shard<@g, [[0]]>>
}
