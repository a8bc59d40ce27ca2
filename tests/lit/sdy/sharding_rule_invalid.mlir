// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @no_rule(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op sdy.sharding_rule must be #sdy.op_sharding_rule<...>, found "([i, j])->([i, j])"}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = "([i, j])->([i, j])"} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @not_written_so(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op expected a rule as ([i, k], [k, j])->([i, j]) {i=4, j=8, k=2} reduction={k}, found i, j -> i}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<i, j -> i>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @too_few_operands(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op the rule is for 1 operands, but the op has 2}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k])->([i, j]) {i=8, j=2, k=4}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @too_many_results(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op the rule is for 2 results, but the op has 1}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j], [i, j]) {i=8, j=2, k=4}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @another_rank(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op the rule has 1 dimensions for operand 1, which has 2}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k])->([i, j]) {i=8, j=2, k=4}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @another_rank_of_the_result(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op the rule has 1 dimensions for result 0, which has 2}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i]) {i=8, j=2, k=4}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @a_factor_that_is_not_used(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op factor l of rule ([i, k], [k, j])->([i, j]) {i=8, j=2, k=4, l=2} is in no tensor}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=2, k=4, l=2}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @a_factor_without_a_size(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op factor l in [i, l] has no size}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, l], [l, j])->([i, j]) {i=8, j=2}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @sizes_out_of_order(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op expected the size of factor i, found 'j=2' in {j=2, i=8, k=4}}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {j=2, i=8, k=4}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @a_factor_twice_in_an_operand(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op factor i is twice in [i, i]}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, i], [k, j])->([i, j]) {i=8, j=2, k=4}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @a_factor_twice_in_a_result(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op factor i is twice in [i, i]}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, i]) {i=8, j=2, k=4}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @a_factor_of_size_1_among_others(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op a dimension of [ij, k] has a factor of size 1 among others}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([ij, k], [k, l])->([ij, l]) {i=8, j=1, k=4, l=2}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @a_factor_of_two_kinds(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op factor k of rule ([i, k], [k, j])->([i, j]) {i=8, j=2, k=4} reduction={k} need_replication={k} is of two kinds}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=2, k=4} reduction={k} need_replication={k}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @a_kind_out_of_order(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op expected each factor once and in order in need_replication={k, i}}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=2, k=4} need_replication={k, i}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @a_kind_twice(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op expected each factor once and in order in need_replication={i, i}}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=2, k=4} need_replication={i, i}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @an_unknown_kind(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op unknown set of factors 'broadcast': expected reduction, need_replication, permutation, blocked_propagation}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=2, k=4} broadcast={i}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @a_kind_of_a_factor_without_a_size(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op factor z in reduction={z} has no size}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=2, k=4} reduction={z}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @a_reduced_factor_in_a_result(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op factor i of rule ([i, k], [k, j])->([i, j]) {i=8, j=2, k=4} reduction={i} is reduced, and in a result}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=2, k=4} reduction={i}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @no_factor_in_a_dimension(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op expected factors or *, found '' in [i, ]}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, ], [k, j])->([i, j]) {i=8, j=2, k=4}>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func private @f(tensor<?x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
func.func @an_operand_of_unknown_size(%x: tensor<?x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{'func.call' op operand 0 has no static shape for the rule to speak of}}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=2, k=4}>} : (tensor<?x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return
}
