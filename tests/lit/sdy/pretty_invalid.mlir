// RUN: shard-opt %s --split-input-file --verify-diagnostics

sdy.mesh @m = <["x"=2]>
func.func @rank(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{'sdy.sharding_constraint' op sharding <@m, [{"x"}]> has 1 dimensions, but the tensor has 2}}
  %0 = sdy.sharding_constraint %x <@m, [{"x"}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

sdy.mesh @m = <["x"=2]>
func.func @notation(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{expected ',' at '{'}}
  %0 = sdy.sharding_constraint %x <@m, [{"x"} {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
