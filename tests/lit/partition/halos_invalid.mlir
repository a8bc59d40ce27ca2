// Halos are made by one op and by elementwise ones, and taken by ops that read so far.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --partition

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @made_by_another_op() attributes {mesh.form = "distributed"} {
  // expected-error@+1 {{'stablehlo.iota' op makes a tensor with halos, [[0], {halo = [[1, 1]]}]: only 'mesh.update_halo' and elementwise ops do}}
  %0 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @could_end_the_program(%x: tensor<4xi32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>) attributes {mesh.form = "distributed"} {
  // expected-error@+1 {{'arith.divsi' op makes a tensor with halos, [[0], {halo = [[1, 1]]}]}}
  %0 = arith.divsi %x, %x : tensor<4xi32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @an_operand_without(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) attributes {mesh.form = "distributed"} {
  // expected-error@+1 {{'stablehlo.tanh' op operand 0 is [[0]], but by the other types and its rule it must be [[0], {halo = [[1, 1]]}]}}
  %0 = "stablehlo.tanh"(%x) : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @a_result_without(%x: tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>) attributes {mesh.form = "distributed"} {
  // expected-error@+1 {{'stablehlo.tanh' op operand 0 is [[0], {halo = [[1, 1]]}], but by the other types and its rule it must be [[0]]}}
  %0 = "stablehlo.tanh"(%x) : (tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @a_loop_at_offsets(%x: tensor<4xf32, #mesh.shard<@g, [[0], {offsets = [[0, 1, 4]]}]>>) attributes {mesh.form = "distributed"} {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  // expected-error@+1 {{'stablehlo.pad' op has a loop whose shards begin at offsets [0, 1, 4]: by its rule}}
  %0 = "stablehlo.pad"(%x, %z) {edge_padding_high = array<i64: 1>, edge_padding_low = array<i64: 1>, interior_padding = array<i64: 0>} : (tensor<4xf32, #mesh.shard<@g, [[0], {offsets = [[0, 1, 4]]}]>>, tensor<f32>) -> tensor<6xf32, #mesh.shard<@g, [[0]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @without_a_halo(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>> attributes {mesh.form = "distributed"} {
  %i = stablehlo.constant dense<0.0> : tensor<f32>
  // expected-error@+1 {{'stablehlo.reduce_window' op operand 0 is [[0]], but by the other types and its rule it must be [[0], {halo = [[1, 1]]}]}}
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 3>, padding = dense<1> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<4xf32, #mesh.shard<@g, [[0]]>>, tensor<f32>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>>
  return %0 : tensor<4xf32, #mesh.shard<@g, [[0]]>>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @filled_for_another(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>> attributes {mesh.form = "distributed"} {
  %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %h = "mesh.update_halo"(%x) : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>
  // expected-error@+1 {{'stablehlo.reduce_window' op operand 0 is [[0], {halo = [[1, 1]]}], but by the other types and its rule it must be [[0], {fill = "max", halo = [[1, 1]]}]}}
  %0 = "stablehlo.reduce_window"(%h, %i) <{window_dimensions = array<i64: 3>, padding = dense<1> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>, tensor<f32>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>>
  return %0 : tensor<4xf32, #mesh.shard<@g, [[0]]>>
}
