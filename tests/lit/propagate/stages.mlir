// Stages are laid on the grid that they are parts of; what is not said is inferred along passages too.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-opt %s --propagate | shard-opt --propagate | filecheck %s

// CHECK: mesh.cluster @g(rank = 2, dim_sizes = [2, 4]) {stage_axes = [0]}
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "first", cluster = @g, offsets = [0, 0], sizes = [1, 4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "second", cluster = @g, offsets = [1, 0], sizes = [1, 4]} : () -> ()

// A word about one value of a stage is enough, here about the argument; and it passes on.
//
// CHECK-LABEL: func.func @named_where_it_goes
// CHECK-SAME: #mesh.shard<@g, {{\[\[1], \[]]}}>, shard_dialect.stage = @first}
// CHECK-SAME: -> (tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, {{\[\[1], \[]]}}>, shard_dialect.stage = @second})
func.func @named_where_it_goes(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@first, [[1], []]>}) -> tensor<8x8xf32> {
  // CHECK: mesh.collective_permute %arg0 {cluster = @g, mesh.shardings = [#mesh.shard<@g, {{\[\[1], \[]]}}>], mesh_axis = [0], permutation = [1, -1], shard_dialect.stages = [@first, @second]}
  %0 = "mesh.collective_permute"(%x) {cluster = @second} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.tanh %0 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// The RFC's way, by types; these are what both stages have it as.
//
// CHECK-LABEL: func.func @typed
// CHECK-SAME: shard_dialect.stage = @second
func.func @typed(%x: tensor<8x8xf32, #mesh.shard<@second, [[], [1]]>>)
    -> tensor<8x8xf32, #mesh.shard<@first, [[], [1]]>> {
  // CHECK: mesh.collective_permute %arg0 {cluster = @g, mesh.shardings = [#mesh.shard<@g, {{\[\[], \[1]]}}>], mesh_axis = [0], permutation = [-1, 0], shard_dialect.stages = [@second, @first]
  %0 = "mesh.collective_permute"(%x)
      : (tensor<8x8xf32, #mesh.shard<@second, [[], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@first, [[], [1]]>>
  return %0 : tensor<8x8xf32, #mesh.shard<@first, [[], [1]]>>
}

// Users that want it on another stage ask for a passage. On a stage its axis is of one device.
//
// CHECK-LABEL: func.func @wanted_elsewhere
func.func @wanted_elsewhere(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@first, [[0], []]>}) -> tensor<8x8xf32> {
  // CHECK: %[[PASSED:.*]] = mesh.collective_permute %arg0 {{.*}}shard_dialect.stages = [@first, @second]
  // CHECK: mesh.annotate %[[PASSED]] {{.*}}sharding = #mesh.shard<@g, {{\[\[1], \[]]}}>
  %0 = "mesh.annotate"(%x) {as_result = false, sharding = #mesh.shard<@second, [[0, 1], []]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// Constants are of no stage: each uses them.
//
// CHECK-LABEL: func.func @shared_constant
func.func @shared_constant(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@first, [[1], []]>},
                           %y: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@second, [[], []]>})
    -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %half = stablehlo.constant dense<0.5> : tensor<8x8xf32>
  // CHECK: stablehlo.add %arg0, %[[HALF:.*]] {
  %0 = stablehlo.add %x, %half : tensor<8x8xf32>
  // CHECK: stablehlo.add %arg1, %[[HALF]] {
  %1 = stablehlo.add %y, %half : tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
