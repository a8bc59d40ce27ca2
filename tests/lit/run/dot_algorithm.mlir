// Devices compute products as precisely as operands are, whatever the algorithm allows.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

// CHECK: stablehlo.dot_general {{.*}}algorithm = <lhs_precision_type = bf16,
// NUMBERS: check passed
sdy.mesh @g = <["x"=2]>
func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@g, [{}, {"x"}]>}, %b: tensor<6x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
