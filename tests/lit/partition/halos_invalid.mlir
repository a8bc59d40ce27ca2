// Halos are made by one op, and taken by ops that read so far.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --partition

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
// expected-error@+1 {{cannot shard a tensor as [[0], {halo = [[1, 1]]}]: only 'mesh.update_halo' makes halos}}
func.func @argument(%x: tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>) attributes {mesh.form = "distributed"} {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @returned(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>> attributes {mesh.form = "distributed"} {
  %0 = "mesh.update_halo"(%x) : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>
  // expected-error@+1 {{'func.return' op takes a tensor with halos, [[0], {halo = [[1, 1]]}]}}
  return %0 : tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @elementwise(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) attributes {mesh.form = "distributed"} {
  %0 = "mesh.update_halo"(%x) : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>
  // expected-error@+1 {{cannot shard a tensor as [[0], {halo = [[1, 1]]}]: only 'mesh.update_halo' makes halos}}
  %1 = stablehlo.abs %0 : tensor<4xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>
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
