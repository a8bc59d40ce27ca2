// An op without code is refused, and the error says how one of the user's own gets it.
//
// RUN: shard-opt %s --allow-unregistered-dialect --lower --verify-diagnostics

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'my.norm' op cannot be lowered: there is no code for it that a device could run; the code of an op of your own is given by 'lowering=' (docs/library.md)}}
  %0 = "my.norm"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
