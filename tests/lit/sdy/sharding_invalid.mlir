// RUN: shard-opt %s --split-input-file --verify-diagnostics

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op mesh @nowhere is not declared; the module's: @m}}
func.func @unknown_mesh(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@nowhere, [{"x"}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axis "z" in <@m, [{"z"}, {}]> is not in mesh @m; its axes: "x", "y"}}
func.func @unknown_axis(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"z"}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op sharding <@m, [{"x"}]> has 1 dimensions, but the tensor has 2}}
func.func @too_few_dimensions(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op sharding <@m, [{"x"}, {}, {}]> has 3 dimensions, but the tensor has 2}}
func.func @too_many_dimensions(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axis "x" is used twice in <@m, [{"x"}, {"x"}]>}}
func.func @an_axis_twice(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"x"}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axis "x" is used twice in <@m, [{"x", "x"}, {}]>}}
func.func @an_axis_twice_in_a_dimension(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x", "x"}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axis "x":(1)2 is used twice in <@m, [{"x":(1)2}, {"x":(1)2}]>}}
func.func @a_sub_axis_twice(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(1)2}, {"x":(1)2}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axis "x" is used twice in <@m, [{"x"}, {}], replicated={"x"}>}}
func.func @split_and_replicated(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}], replicated={"x"}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axis "x" is used twice in <@m, [{"x"}, {}], unreduced={"x"}>}}
func.func @split_and_unreduced(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}], unreduced={"x"}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axis "y" is used twice in <@m, [{}, {}], replicated={"y"}, unreduced={"y"}>}}
func.func @replicated_and_unreduced(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], replicated={"y"}, unreduced={"y"}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axes "x" and "x":(1)2 overlap in <@m, [{"x"}, {"x":(1)2}]>}}
func.func @an_axis_and_its_sub_axis(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"x":(1)2}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axes "x":(1)4 and "x":(2)4 overlap in <@m, [{"x":(1)4}, {"x":(2)4}]>}}
func.func @overlapping_sub_axes(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(1)4}, {"x":(2)4}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op in <@m, [{"x":(1)2, "x":(2)4}, {}]>: sub-axes x:(1)2 and x:(2)4 in [["x":(1)2, "x":(2)4], []] are one}}
func.func @neighbours_that_are_one(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(1)2, "x":(2)4}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op in <@m, [{}, {}], replicated={"x":(1)2, "x":(2)4}>: sub-axes x:(1)2 and x:(2)4 in [[], [], {replicated = ["x":(1)2, "x":(2)4]}] are one}}
func.func @replicated_neighbours_that_are_one(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], replicated={"x":(1)2, "x":(2)4}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op replicated axes of <@m, [{}, {}], replicated={"y", "x"}> are not in the order of mesh @m}}
func.func @replicated_out_of_order(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], replicated={"y", "x"}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op replicated axes of <@m, [{}, {}], replicated={"x":(4)2, "x":(1)2}> are not in the order of mesh @m}}
func.func @replicated_sub_axes_out_of_order(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], replicated={"x":(4)2, "x":(1)2}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op unreduced axes of <@m, [{}, {}], unreduced={"y", "x"}> are not in the order of mesh @m}}
func.func @unreduced_out_of_order(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], unreduced={"y", "x"}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op in <@m, [{"x":(1)3}, {}]>: sub-axis x:(1)3 in sharding [["x":(1)3], []] ends at 3, which does not divide axis x of size 8}}
func.func @a_sub_axis_that_does_not_divide(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(1)3}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op in <@m, [{"x":(3)2}, {}]>: sub-axis x:(3)2 in sharding [["x":(3)2], []] ends at 6, which does not divide axis x of size 8}}
func.func @a_pre_size_that_does_not_divide(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(3)2}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op in <@m, [{"x":(4)4}, {}]>: sub-axis x:(4)4 in sharding [["x":(4)4], []] ends at 16, which does not divide axis x of size 8}}
func.func @a_sub_axis_past_the_end(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(4)4}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op in <@m, [{"x":(1)8}, {}]>: sub-axis x:(1)8 in sharding [["x":(1)8], []] is all of axis x: write x}}
func.func @a_sub_axis_that_is_all(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(1)8}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op in <@m, [{"x":(2)1}, {}]>: sub-axis x:(2)1 in sharding [["x":(2)1], []]}}
func.func @a_sub_axis_of_size_1(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(2)1}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op in <@m, [{"x":(0)2}, {}]>: sub-axis x:(0)2 in sharding [["x":(0)2], []]}}
func.func @a_pre_size_of_0(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(0)2}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op in <@m, [{"x":(-1)2}, {}]>: sub-axis x:(-1)2 in sharding [["x":(-1)2], []]}}
func.func @a_negative_pre_size(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(-1)2}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op in <@m, [{"x"}, {}p1]>: priority 1 of dimension 1 in [[0], [], {priority = [unit, 1]}], which is neither split nor open: there is nothing to decide}}
func.func @a_priority_of_what_is_closed_and_whole(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}p1]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op expected a priority at 'px' in #sdy.sharding<@m, [{"x"}px, {}]>}}
func.func @a_priority_that_is_no_number(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}px, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op expected '}' after '?' at '"x"' in #sdy.sharding<@m, [{?, "x"}, {}]>}}
func.func @axes_after_open(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{?, "x"}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op expected a name in quotes at 'x' in #sdy.sharding<@m, [{x}, {}]>}}
func.func @an_axis_without_quotes(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{x}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op expected 'replicated' or 'unreduced', each once at 'replicated' in #sdy.sharding<@m, [{}, {}], replicated={"x"}, replicated={"y"}>}}
func.func @replicated_twice(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], replicated={"x"}, replicated={"y"}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op expected 'replicated' or 'unreduced', each once at 'reduced' in #sdy.sharding<@m, [{}, {}], reduced={"x"}>}}
func.func @an_unknown_field(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], reduced={"x"}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op expected a mesh at '[' in #sdy.sharding<[{"x"}, {}]>}}
func.func @no_mesh(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<[{"x"}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[3]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op sharding <@m, [{}, {}]> on the one device of mesh @m: expected no dimensions and no axes}}
func.func @maximal_with_dimensions(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[3]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op sharding <@m, [], replicated={"x"}> on the one device of mesh @m: expected no dimensions and no axes}}
func.func @maximal_with_replicated_axes(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [], replicated={"x"}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<[]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axis "x" in <@m, [{"x"}, {}]> is not in mesh @m; its axes: none}}
func.func @an_axis_of_the_empty_mesh(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op sharding <@m, [{}]> has 1 dimensions, but the tensor has 0}}
func.func @a_scalar_with_a_dimension(%x: f32 {sdy.sharding = #sdy.sharding<@m, [{}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op has sharding <@m, [], replicated={"x"}>, with axes, for a f32, no tensor}}
func.func @a_scalar_with_replicated_axes(%x: f32 {sdy.sharding = #sdy.sharding<@m, [], replicated={"x"}>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op has a sharding for a tensor<*xf32>, which has no rank}}
func.func @unranked(%x: tensor<*xf32> {sdy.sharding = #sdy.sharding<@m, []>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op grid @"" has two axes named "x"}}
func.func @an_inlined_mesh_with_an_axis_twice(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "x"=2]>, [{"x"}, {}]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op axis "z" in <@m, [{"z"}, {}]> is not in mesh @m; its axes: "x", "y"}}
func.func @a_result(%x: tensor<8x8xf32>) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"z"}, {}]>}) {
  return %x : tensor<8x8xf32>
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{'func.func' op expected #sdy.sharding<...>, found #sdy.sharding_per_value<[<@m, [{}]>]>}}
func.func @several_for_an_argument(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}]>]>}) {
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @one_for_an_op(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'math.tanh' op expected #sdy.sharding_per_value<...>, found #sdy.sharding<@m, [{}, {}]>}}
  %0 = math.tanh %x {sdy.sharding = #sdy.sharding<@m, [{}, {}]>} : tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @too_few_for_an_op(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'math.sincos' op has 1 shardings for 2 values}}
  %s, %c = math.sincos %x {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {}]>]>} : tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @too_many_for_an_op(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'math.tanh' op has 2 shardings for 1 values}}
  %0 = math.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {}]>, <@m, [{}, {}]>]>} : tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @an_axis_of_an_op(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'math.tanh' op axis "z" in <@m, [{"z"}, {}]> is not in mesh @m; its axes: "x", "y"}}
  %0 = math.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"z"}, {}]>]>} : tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_string(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'math.tanh' op expected #sdy.sharding_per_value<...>, found "rows"}}
  %0 = math.tanh %x {sdy.sharding = "rows"} : tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @an_op_without_results(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'func.call' op has 1 shardings for 0 values}}
  func.call @effect() {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}]>]>} : () -> ()
  return
}
func.func private @effect()
