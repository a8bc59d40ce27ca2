// RUN: shard-opt %s --split-input-file --verify-diagnostics

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_shard_of_the_wrong_size(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op operand 0: expected shape [1, 8] of tensor<8x8xf32> in the region, not tensor<4x8xf32>}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<4x8xf32>):
    "sdy.return"(%a) : (tensor<4x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_result_of_the_wrong_size(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op result 0: expected shape [8, 8] of tensor<8x8xf32> in the region, not tensor<1x8xf32>}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_shard_of_another_element_type(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op operand 0: expected shape [1, 8] of tensor<8x8xf32> in the region, not tensor<1x8xf16>}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf16>):
    "sdy.return"(%a) : (tensor<1x8xf16>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_shard_that_is_no_tensor(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op operand 0: expected shape [1, 8] of tensor<8x8xf32> in the region, not f32}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: f32):
    "sdy.return"(%a) : (f32) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @sizes_that_do_not_divide(%x: tensor<6x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op operand 0: dimension 0 of size 6 cannot be split evenly into 8 shards}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<6x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_size_that_is_not_known(%x: tensor<?x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op operand 0: expected shape [-9223372036854775808, 8] of tensor<?x8xf32> in the region, not tensor<1x8xf32>}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_manual_axis_after_a_free_one(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op operand 0: a manual axis after a free one in dimension 0}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"y", "x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @an_unknown_manual_axis(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op axis "z" in manual_axes is not in mesh @m; its axes: "x", "y"}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"z"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<8x8xf32>):
    "sdy.return"(%a) : (tensor<8x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @an_unknown_axis(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op axis "z" in <@m, [{"z"}, {}]> is not in mesh @m; its axes: "x", "y"}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"z"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @an_unknown_mesh(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op mesh @n is not declared; the module's: @m}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@n, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @too_few_shardings(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op has 0 shardings for 1 values}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @too_many_shardings(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op has 2 shardings for 1 values}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>, <@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @too_many_shardings_of_results(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op has 2 shardings for 1 values}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>, <@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_sharding_of_another_rank(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op sharding <@m, [{"x"}]> has 1 dimensions, but the tensor has 2}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8]>, sym_name = "n"}> : () -> ()
func.func @shardings_on_two_meshes(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op has shardings on meshes m, n: expected one}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@n, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_return(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op must end in 'sdy.return'}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    %b = math.tanh %a : tensor<1x8xf32>
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @it_returns_nothing(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op has 1 results, and 0 in its region}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"() : () -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @two_blocks(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op must have one region of one block}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    cf.br ^bb1
  ^bb1:
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_shardings(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op has no attribute 'in_shardings'}}
  %0 = "sdy.manual_computation"(%x) <{manual_axes = #sdy<manual_axes{"x"}>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_manual_axes(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op has no attribute 'manual_axes'}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_region(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op must have one region of one block}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @another_number_of_arguments(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.manual_computation' op has 1 operands, and 2 in its region}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>, %b: tensor<1x8xf32>):
    "sdy.return"(%a) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @manual_already(%x: tensor<8x8xf32>) {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    // expected-error@+1 {{'sdy.manual_computation' op axis "x" is manual already, in the op around it}}
    %1 = "sdy.manual_computation"(%a) <{in_shardings = #sdy.sharding_per_value<[<@m, [{}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}, {}]>]>}> ({
    ^bb0(%b: tensor<1x8xf32>):
      "sdy.return"(%b) : (tensor<1x8xf32>) -> ()
    }) : (tensor<1x8xf32>) -> tensor<1x8xf32>
    "sdy.return"(%1) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_sharding_inside_along_a_manual_axis(%x: tensor<8x8xf32>) {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    // expected-error@+1 {{'math.tanh' op has axis "x" in <@m, [{}, {"x"}]>, which is manual here}}
    %1 = math.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {"x"}]>]>} : tensor<1x8xf32>
    "sdy.return"(%1) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_constraint_inside_along_a_manual_axis(%x: tensor<8x8xf32>) {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    // expected-error@+1 {{'sdy.sharding_constraint' op has axis "x" in <@m, [{}, {"x"}]>, which is manual here}}
    %1 = "sdy.sharding_constraint"(%a) <{sharding = #sdy.sharding<@m, [{}, {"x"}]>}> : (tensor<1x8xf32>) -> tensor<1x8xf32>
    "sdy.return"(%1) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_value_from_outside(%x: tensor<8x8xf32>, %y: tensor<1x8xf32>) {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<1x8xf32>):
    // expected-error@+1 {{'arith.addf' op uses a value from outside of the 'sdy.manual_computation' around it}}
    %1 = arith.addf %a, %y : tensor<1x8xf32>
    "sdy.return"(%1) : (tensor<1x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_return_outside(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.return' op is not in one of sdy.manual_computation, sdy.named_computation}}
  "sdy.return"(%x) : (tensor<8x8xf32>) -> ()
  return
}
