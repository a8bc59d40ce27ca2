// In the distributed form the values of a flow must have the same sharding, and an operand that
// chooses the control flow path must be replicated. MLIR does not check this for all ops:
// StableHLO's verifiers ignore shardings.
//
// RUN: shard-opt %s --partition --split-input-file --verify-diagnostics

shard.grid @g(shape = 2)
func.func @loop(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>, %n: tensor<i32>)
    -> tensor<4xf32> attributes {mesh.form = "distributed"} {
  // expected-error @+1 {{must have the same sharding}}
  %r:2 = "stablehlo.while"(%n, %x) ({
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>):
    %p = stablehlo.compare LT, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>):
    stablehlo.return %i, %a : tensor<i32>, tensor<4xf32>
  }) : (tensor<i32>, tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> (tensor<i32>, tensor<4xf32>)
  return %r#1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @branch(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>, %p: tensor<i1>)
    -> tensor<4xf32> attributes {mesh.form = "distributed"} {
  // expected-error @+3 {{must have the same sharding}}
  %0 = "tosa.cond_if"(%p, %x) ({
  ^bb0(%a: tensor<4xf32, #mesh.shard<@g, [[0]]>>):
    tosa.yield %a : tensor<4xf32, #mesh.shard<@g, [[0]]>>
  }, {
  ^bb0(%a: tensor<4xf32, #mesh.shard<@g, [[0]]>>):
    tosa.yield %a : tensor<4xf32, #mesh.shard<@g, [[0]]>>
  }) : (tensor<i1>, tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @partial_flag(%x: tensor<4xf32>, %p: tensor<i1, #mesh.shard<@g, [{max = [0]}]>>)
    -> tensor<4xf32> attributes {mesh.form = "distributed"} {
  // expected-error @+1 {{'stablehlo.if' op operand 0 is [{max = [0]}], but it must be replicated}}
  %0 = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    %a = stablehlo.abs %x : tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }) : (tensor<i1, #mesh.shard<@g, [{max = [0]}]>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
