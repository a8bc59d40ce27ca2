// Shardings stand on arguments, results and ops, with all that a dimension may say.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=8, "z"=2]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @boundary
// CHECK-SAME{LITERAL}: (%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y", ?}]>}
// CHECK-SAME{LITERAL}: %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y":(1)2, "x"}p1, {"y":(4)2, ?}p0]>}
// CHECK-SAME{LITERAL}: %arg2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{?}, {}], replicated={"x", "y":(2)2}, unreduced={"z"}>}
// CHECK-SAME{LITERAL}: %arg3: f32 {sdy.sharding = #sdy.sharding<@m, []>}
// CHECK-SAME{LITERAL}: -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"z"}]>})
func.func @boundary(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y", ?}]>},
                    %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y":(1)2, "x"}p1, {"y":(4)2, ?}p0]>},
                    %c: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{?}, {}], replicated={"x", "y":(2)2}, unreduced={"z"}>},
                    %d: f32 {sdy.sharding = #sdy.sharding<@m, []>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"z"}]>}) {
  // CHECK{LITERAL}: math.tanh %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {?}]>]>}
  %0 = math.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {?}]>]>} : tensor<8x8xf32>
  // CHECK{LITERAL}: math.sincos %0 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}, {?}]>, <@m, [{"x"}, {"y"}]>]>}
  %s, %t = math.sincos %0 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}, {?}]>, <@m, [{"x"}, {"y"}]>]>} : tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}
