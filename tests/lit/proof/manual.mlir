// `shard-prove` compares a program that is parallel by hand with a plain one.
//
// RUN: shard-prove %S/Inputs/product.mlir %s 2>&1 | filecheck %s
// RUN: sed 's/\[{}, {"m"}\]>, <@mesh, \[{"m"}, {}\]/[{}, {"m"}]>, <@mesh, [{"d"}, {}]/' %s > %t.wrong
// RUN: not shard-prove %S/Inputs/product.mlir %t.wrong 2>&1 | filecheck %s --check-prefix=REFUTED

// CHECK: {{^}}note: proven:
// REFUTED: {{^}}error: refuted: result 0: the program has another number at [0, 0] than the unsharded program

"sdy.mesh"() <{mesh = #sdy.mesh<["d"=2, "m"=2]>, sym_name = "mesh"}> : () -> ()

func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = "sdy.manual_computation"(%x, %w) <{
      in_shardings = #sdy.sharding_per_value<[<@mesh, [{}, {"m"}]>, <@mesh, [{"m"}, {}]>]>,
      out_shardings = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>,
      manual_axes = #sdy<manual_axes{"d", "m"}>}> ({
  ^bb0(%x1: tensor<4x4xf32>, %w1: tensor<4x4xf32>):
    %1 = stablehlo.dot_general %x1, %w1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = "stablehlo.all_reduce"(%1) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %3 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "sdy.return"(%2) : (tensor<4x4xf32>) -> ()
  }) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
