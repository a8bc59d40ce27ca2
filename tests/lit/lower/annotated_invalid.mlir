// A function whose shardings are all in attributes is not lowered as if it had none.
//
// RUN: shard-opt %s --split-input-file --lower --verify-diagnostics
// RUN: shard-opt %s --split-input-file --lower='target=mpi' --verify-diagnostics
// RUN: shard-opt %s --split-input-file --lower='target=stablehlo' --verify-diagnostics
// RUN: not shard-opt %S/../../../examples/mlp_stablehlo.mlir --emit-stablehlo 2>&1 | filecheck %s
// CHECK: error: function @main is in the annotated form: run --spmd before --lower

shard.grid @g(shape = 2)
// expected-error@+1 {{function @argument is in the annotated form: run --spmd before --lower}}
func.func @argument(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

sdy.mesh @m = <["x"=2]>
// expected-error@+1 {{function @result is in the annotated form: run --spmd before --lower}}
func.func @result(%x: tensor<4xf32>)
    -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) {
  return %x : tensor<4xf32>
}

// -----

sdy.mesh @m = <["x"=2]>
// expected-error@+1 {{function @inside is in the annotated form: run --spmd before --lower}}
func.func @inside(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

sdy.mesh @m = <["x"=2]>
// expected-error@+1 {{function @constraint is in the annotated form: run --spmd before --lower}}
func.func @constraint(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = sdy.sharding_constraint %x <@m, [{"x"}]> : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
// expected-error@+1 {{function @complete is in the propagated form: run --spmd before --lower}}
func.func @complete(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32>
    attributes {propagated} {
  return %x : tensor<4xf32>
}

// -----

// On one device there is nothing to partition.
sdy.mesh @m = <["x"=1]>
func.func @of_one(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
