// A pipeline runs on all devices of its grid, those of each stage doing their own work.
//
// RUN: shard-run %s --check | filecheck %s
// RUN: shard-opt %s --propagate --materialize -o %t.mlir
// RUN: shard-run %t.mlir --check | filecheck %s
// RUN: shard-run %s --bisect | filecheck %s
// RUN: not shard-run %s --bisect --entry wrong 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: shard-run %s --check --entry there_and_back | filecheck %s --check-prefix=BACK

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [3, 2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0, 0], sizes = [1, 2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "b", cluster = @g, offsets = [1, 0], sizes = [1, 2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "c", cluster = @g, offsets = [2, 0], sizes = [1, 2]} : () -> ()

// CHECK: @main on 6 devices (devices)
// CHECK: check passed: every device's results are the unsharded program's
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@a, [[], [1]]>},
                %w: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@b, [[1], []]>})
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = stablehlo.tanh %x : tensor<4x8xf32>
  %1 = "mesh.collective_permute"(%0) {cluster = @b} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = "mesh.annotate"(%2) {as_result = false, sharding = #mesh.shard<@c, [[1], []]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = stablehlo.exponential %3 : tensor<4x8xf32>
  return %4, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// WRONG: stages.mlir:[[#]]:8: error: the result of 'stablehlo.dot_general' op on device 2
func.func @wrong(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@a, [[], [1]]>},
                 %w: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@b, [[1], []]>}) -> tensor<4x8xf32> {
  %0 = "mesh.collective_permute"(%x) {cluster = @b} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
      {mesh.sharding_rule = "([a, c], [c, b]) -> ([a, b]) reduction={c: max}"}
      : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = "mesh.collective_permute"(%1) {cluster = @c} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// BACK: check passed
func.func @there_and_back(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@c, [[], [1]]>}) -> tensor<4x8xf32> {
  %0 = "mesh.collective_permute"(%x) {cluster = @a} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = stablehlo.sine %0 : tensor<4x8xf32>
  %2 = "mesh.collective_permute"(%1) {cluster = @c} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = stablehlo.add %x, %2 : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
