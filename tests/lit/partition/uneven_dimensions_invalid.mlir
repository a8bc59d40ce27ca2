// Dimensions that do not divide are refused where the tensor is made.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --partition
// RUN: shard-opt %s --split-input-file --verify-diagnostics --spmd

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
// expected-error@+1 {{dimension 1 of size 5 does not divide by 4 devices in sharding [[], [1]]: cutting it is not done yet}}
func.func @argument(%x: tensor<4x5xf32, #mesh.shard<@g, [[], [1]]>>) attributes {mesh.form = "distributed"} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @result_of_an_op(%x: tensor<6x5xf32>) -> tensor<6x5xf32, #mesh.shard<@g, [[0, 1], []]>> attributes {mesh.form = "distributed"} {
  // expected-error@+1 {{dimension 0 of size 6 does not divide by 8 devices in sharding [[0, 1], []]: cutting it is not done yet}}
  %0 = "mesh.local_split"(%x) {sharding = [[0, 1], []]} : (tensor<6x5xf32>) -> tensor<6x5xf32, #mesh.shard<@g, [[0, 1], []]>>
  return %0 : tensor<6x5xf32, #mesh.shard<@g, [[0, 1], []]>>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @around_a_loop(%x: tensor<5xf32>) -> tensor<5xf32, #mesh.shard<@g, [[0]]>> attributes {mesh.form = "distributed"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{dimension 0 of size 5 does not divide by 2 devices in sharding [[0]]: cutting it is not done yet}}
  %0 = "mesh.local_split"(%x) {sharding = [[0]]} : (tensor<5xf32>) -> tensor<5xf32, #mesh.shard<@g, [[0]]>>
  %1 = scf.for %i = %c0 to %c1 step %c1 iter_args(%a = %0) -> tensor<5xf32, #mesh.shard<@g, [[0]]>> {
    scf.yield %a : tensor<5xf32, #mesh.shard<@g, [[0]]>>
  }
  return %1 : tensor<5xf32, #mesh.shard<@g, [[0]]>>
}
