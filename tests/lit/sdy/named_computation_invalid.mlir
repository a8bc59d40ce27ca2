// RUN: shard-opt %s --split-input-file --verify-diagnostics

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_name(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op attribute 'name' must be a string, found None}}
  %0 = "sdy.named_computation"(%x) <{}> ({
  ^bb0(%a: tensor<8x8xf32>):
    "sdy.return"(%a) : (tensor<8x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_name_that_is_none(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op attribute 'name' must be a string, found 1 : i64}}
  %0 = "sdy.named_computation"(%x) <{name = 1 : i64}> ({
  ^bb0(%a: tensor<8x8xf32>):
    "sdy.return"(%a) : (tensor<8x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @an_argument_of_another_type(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op has operands and block arguments of different types}}
  %0 = "sdy.named_computation"(%x) <{name = "f"}> ({
  ^bb0(%a: tensor<8x4xf32>):
    "sdy.return"(%a) : (tensor<8x4xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @an_argument_too_many(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op has operands and block arguments of different types}}
  %0 = "sdy.named_computation"(%x) <{name = "f"}> ({
  ^bb0(%a: tensor<8x8xf32>, %b: tensor<8xf32>):
    "sdy.return"(%a) : (tensor<8x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_result_of_another_type(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op returns other types from its region than its own results have}}
  %0 = "sdy.named_computation"(%x) <{name = "f"}> ({
  ^bb0(%a: tensor<8x8xf32>):
    "sdy.return"(%a) : (tensor<8x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @too_many_shardings_in(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op has 2 shardings for 1 values}}
  %0 = "sdy.named_computation"(%x) <{name = "f", in_shardings = #sdy.sharding_per_value<[<@m, [{}, {}]>, <@m, [{}, {}]>]>}> ({
  ^bb0(%a: tensor<8x8xf32>):
    "sdy.return"(%a) : (tensor<8x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @too_many_shardings_out(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op has 2 shardings for 1 values}}
  %0 = "sdy.named_computation"(%x) <{name = "f", out_shardings = #sdy.sharding_per_value<[<@m, [{}, {}]>, <@m, [{}, {}]>]>}> ({
  ^bb0(%a: tensor<8x8xf32>):
    "sdy.return"(%a) : (tensor<8x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_sharding_of_another_rank(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op sharding <@m, [{}]> has 1 dimensions, but the tensor has 2}}
  %0 = "sdy.named_computation"(%x) <{name = "f", in_shardings = #sdy.sharding_per_value<[<@m, [{}]>]>}> ({
  ^bb0(%a: tensor<8x8xf32>):
    "sdy.return"(%a) : (tensor<8x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @an_unknown_mesh(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op mesh @n is not declared; the module's: @m}}
  %0 = "sdy.named_computation"(%x) <{name = "f", out_shardings = #sdy.sharding_per_value<[<@n, [{}, {}]>]>}> ({
  ^bb0(%a: tensor<8x8xf32>):
    "sdy.return"(%a) : (tensor<8x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @shardings_that_are_none(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op expected #sdy.sharding_per_value<...>, found "rows"}}
  %0 = "sdy.named_computation"(%x) <{name = "f", in_shardings = "rows"}> ({
  ^bb0(%a: tensor<8x8xf32>):
    "sdy.return"(%a) : (tensor<8x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_region(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op must have one region of one block}}
  %0 = "sdy.named_computation"(%x) <{name = "f"}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_return(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.named_computation' op must end in 'sdy.return'}}
  %0 = "sdy.named_computation"(%x) <{name = "f"}> ({
  ^bb0(%a: tensor<8x8xf32>):
    %b = math.tanh %a : tensor<8x8xf32>
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
