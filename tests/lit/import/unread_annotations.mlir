// Annotations that no pass reads, being misspelt or GSPMD's, are warned about; what Shardy leaves for debugging is not.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics

shard.grid @g(shape = 2)
// expected-warning@+2 {{'mesh.shard' is no attribute of a result, and is not read: did you mean 'mesh.sharding'?}}
// expected-warning@+1 {{'mesh.shardin' is no attribute of an argument, and is not read: did you mean 'mesh.sharding'?}}
func.func @ours(%x: tensor<4xf32> {mesh.shardin = #mesh.shard<@g, [[0]]>}) -> (tensor<4xf32> {mesh.shard = 1}) {
  // expected-warning@+1 {{'reqired' is no attribute of a 'mesh.annotate' op, and is not read: did you mean 'required'?}}
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0]]>, reqired = false} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-warning@+1 {{'mesh.sharding' is no attribute of a 'stablehlo.add' op, and is not read: did you mean 'mesh.shardings'?}}
  %1 = stablehlo.add %0, %0 {mesh.sharding = #mesh.shard<@g, [[0]]>} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

sdy.mesh @m = <["x"=2]>
// expected-warning@+1 {{'sdy.shardings' is no attribute of an argument, and is not read: did you mean 'sdy.sharding'?}}
func.func @shardy(%x: tensor<4xf32> {sdy.shardings = #sdy.sharding<@m, [{"x"}]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

sdy.mesh @m = <["x"=2]>
func.func @of_shardys_passes(
    %x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>, sdy.sharding_origins = {x = "self"}})
    -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x {sdy.propagation_edges = "none"} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-warning@+1 {{'mhlo.sharding' is not read (there are 2): have JAX write Shardy's annotations, by jax.config.update("jax_use_shardy_partitioner", True)}}
func.func @gspmd(%x: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"})
    -> (tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
  return %x : tensor<4xf32>
}

// -----

// These split nothing.
func.func @whole(%x: tensor<4xf32> {mhlo.sharding = "{replicated}"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
