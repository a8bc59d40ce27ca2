// A reshard is read and printed as it is.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @moved
func.func @moved(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK{LITERAL}: sdy.reshard %arg0 <@m, [{}, {"x"}]> : tensor<8x8xf32>
  %0 = "sdy.reshard"(%x) <{sharding = #sdy.sharding<@m, [{}, {"x"}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
