// Shards of different sizes are refused where the op would not make those of its result.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --partition
// RUN: shard-opt %s --split-input-file --verify-diagnostics --spmd

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @of_a_body_that_reads_anywhere(%x: tensor<5xindex, #mesh.shard<@g, [[0]]>>, %t: tensor<9xf32>,
    %into: tensor<5xf32, #mesh.shard<@g, [[0]]>>) -> tensor<5xf32, #mesh.shard<@g, [[0]]>> attributes {mesh.form = "distributed"} {
  // expected-error@+1 {{'linalg.map' op splits a loop of 5 among 2 devices, which do not divide it: by its rule ([a], [a]) -> ([a]) their shards must be equal}}
  %0 = linalg.map ins(%x : tensor<5xindex, #mesh.shard<@g, [[0]]>>) outs(%into : tensor<5xf32, #mesh.shard<@g, [[0]]>>)
    (%i: index, %o: f32) {
      %e = tensor.extract %t[%i] : tensor<9xf32>
      linalg.yield %e : f32
    }
  return %0 : tensor<5xf32, #mesh.shard<@g, [[0]]>>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @of_a_sum_that_is_not_known(%x: tensor<5x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4xf32, #mesh.shard<@g, [[], [0]]>> attributes {mesh.form = "distributed"} {
  // expected-error@+1 {{'tosa.custom' op splits a loop of 5 among 2 devices}}
  %0 = tosa.custom %x {operator_name = "sum", domain_name = "d", implementation_attrs = "", mesh.sharding_rule = "([i, j]) -> ([j]) reduction={i}"} : (tensor<5x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4xf32, #mesh.shard<@g, [[], [0]]>>
  return %0 : tensor<4xf32, #mesh.shard<@g, [[], [0]]>>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @offsets(%x: tensor<4xf32, #mesh.shard<@g, [[0], {offsets = [[0, 1, 4]]}]>>) attributes {mesh.form = "distributed"} {
  // expected-error@+1 {{'stablehlo.tanh' op result 0 is [[0]], but by the other types and its rule it must be [[0], {offsets = [[0, 1, 4]]}]}}
  %0 = "stablehlo.tanh"(%x) : (tensor<4xf32, #mesh.shard<@g, [[0], {offsets = [[0, 1, 4]]}]>>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>>
  return
}
