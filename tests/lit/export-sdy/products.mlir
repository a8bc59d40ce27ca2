// The loops along which a product is computed, as Shardy's constraints on its operands.
//
// RUN: shard-opt %s --export-sdy | filecheck %s
// RUN: shard-opt %s --propagate --materialize > %t.direct
// RUN: shard-opt %s --export-sdy --import --propagate --materialize > %t.back
// RUN: diff %t.direct %t.back

"mesh.cluster"() {sym_name = "grid", rank = 2 : i64, dim_sizes = [4, 2]} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: [[X:%.*]] = sdy.sharding_constraint %arg0 <@grid, [{"axis_0"}, {}]>
// CHECK: [[W:%.*]] = sdy.sharding_constraint %arg1 <@grid, [{}, {"axis_1"}]>
// CHECK: stablehlo.dot_general [[X]], [[W]]
// CHECK-NOT: sharding = [
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> tensor<8x6xf32>
    attributes {mesh_cluster = @grid} {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {sharding = [[0], [1], []]}
    : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
