// There is no unsharded program in one with a manual computation: it must be named.
//
// RUN: not shard-run %s --check 2>&1 | filecheck %s
// RUN: not shard-opt %s --import --erase-sharding 2>&1 | filecheck %s
// RUN: not shard-run %s --bisect --reference=%S/Inputs/free_axes_unsharded.mlir 2>&1 | filecheck %s --check-prefix=BISECT
// RUN: shard-run %s | filecheck %s --check-prefix=RESULT

// CHECK: unsharded_invalid.mlir:14:8: error: a manual computation says what single devices do, and not what is done to unsharded tensors: name the unsharded program with --reference
// BISECT: unsharded_invalid.mlir:14:8: error: a manual computation: what values before and after it are on whole tensors is not known to --bisect
// RESULT: no communication

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>,
      manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<4x16xf32>):
    "sdy.return"(%a) : (tensor<4x16xf32>) -> ()
  }) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
