// Where it is said that a dimension is split that does not divide, ops keep its shards that can.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s
// RUN: shard-opt %s --propagate --materialize | shard-opt - | filecheck %s

shard.grid @g(shape = 4)

// CHECK-LABEL: func.func @elementwise
// CHECK-SAME{LITERAL}: (%arg0: tensor<5x6xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<3x2x5xf32, #mesh.shard<@g, [[], [], [0]]>>
// CHECK-NOT: mesh.all_gather
// CHECK: stablehlo.broadcast_in_dim {{.*}} -> tensor<5x6xf32, #mesh.shard<@g, {{\[\[}}0], []]>>
// CHECK: stablehlo.add {{.*}} : tensor<5x6xf32, #mesh.shard<@g, {{\[\[}}0], []]>>
// CHECK: stablehlo.reshape {{.*}} -> tensor<5x2x3xf32, #mesh.shard<@g, {{\[\[}}0], [], []]>>
// CHECK: stablehlo.transpose {{.*}} -> tensor<3x2x5xf32, #mesh.shard<@g, {{\[\[}}], [], [0]]>>
// CHECK-NEXT: return
func.func @elementwise(%x: tensor<5x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<3x2x5xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [0]]>}) {
  %row = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
  %0 = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<6xf32>) -> tensor<5x6xf32>
  %1 = stablehlo.add %x, %0 : tensor<5x6xf32>
  %2 = stablehlo.reshape %1 : (tensor<5x6xf32>) -> tensor<5x2x3xf32>
  %3 = stablehlo.transpose %2, dims = [2, 1, 0] : (tensor<5x2x3xf32>) -> tensor<3x2x5xf32>
  return %3 : tensor<3x2x5xf32>
}

// CHECK-LABEL: func.func @partial_results
// CHECK: stablehlo.dot_general {{.*}} -> tensor<2x6xf32, #mesh.shard<@g, {{\[\[}}], [], [0]]>>
// CHECK: stablehlo.reduce({{.*}} -> tensor<6xf32, #mesh.shard<@g, {{\[\[}}], {max = [0]}]>>
// CHECK-DAG: mesh.all_reduce{{.*}} reduction = "max"
// CHECK-DAG: mesh.all_reduce{{.*}} reduction = "sum"
func.func @partial_results(%x: tensor<51x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %y: tensor<2x51xf32>)
    -> (tensor<2x6xf32>, tensor<6xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %y, %x, contracting_dims = [1] x [0] : (tensor<2x51xf32>, tensor<51x6xf32>) -> tensor<2x6xf32>
  %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<51x6xf32>, tensor<f32>) -> tensor<6xf32>
  return %0, %1 : tensor<2x6xf32>, tensor<6xf32>
}

// What the shards of one dimension do not suit gets it whole.
// CHECK-LABEL: func.func @gathered
// CHECK: %[[COLUMNS:.*]] = mesh.all_gather
// CHECK: stablehlo.reshape %[[COLUMNS]] : (tensor<6x5xf32>) -> tensor<30xf32>
// CHECK: stablehlo.slice
// CHECK: stablehlo.concatenate %{{.*}} {halo = {{\[\[}}0, 1], []]}
// CHECK: %[[WHOLE:.*]] = mesh.all_gather %arg0
// CHECK: "stablehlo.gather"(%[[WHOLE]]
func.func @gathered(%x: tensor<5x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %y: tensor<4x6xf32>, %i: tensor<7x1xi32>)
    -> (tensor<30xf32>, tensor<3x6xf32>, tensor<9x6xf32>, tensor<7x6xf32>) {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<5x6xf32>) -> tensor<6x5xf32>
  %0 = stablehlo.reshape %t : (tensor<6x5xf32>) -> tensor<30xf32>
  %1 = stablehlo.slice %x [1:4, 0:6] : (tensor<5x6xf32>) -> tensor<3x6xf32>
  %2 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<5x6xf32>, tensor<4x6xf32>) -> tensor<9x6xf32>
  %3 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 6>} : (tensor<5x6xf32>, tensor<7x1xi32>) -> tensor<7x6xf32>
  return %0, %1, %2, %3 : tensor<30xf32>, tensor<3x6xf32>, tensor<9x6xf32>, tensor<7x6xf32>
}

// What is looked up is in one of the shards.
// CHECK-LABEL: func.func @lookup_alone
// CHECK: "stablehlo.gather"(%arg0
// CHECK-NEXT: mesh.all_reduce
func.func @lookup_alone(%x: tensor<51x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %i: tensor<1x1xi32>) -> tensor<1x6xf32> {
  %0 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 6>} : (tensor<51x6xf32>, tensor<1x1xi32>) -> tensor<1x6xf32>
  return %0 : tensor<1x6xf32>
}

// CHECK-LABEL: func.func @windows
// CHECK: %[[HALO:.*]] = mesh.update_halo %arg0
// CHECK: "stablehlo.reduce_window"(%[[HALO]]
func.func @windows(%x: tensor<7xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<7xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 3>, padding = dense<1> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<7xf32>, tensor<f32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// An annotation of an argument, or of what is returned, is of the function's boundary.
// CHECK-LABEL: func.func @boundary
// CHECK-SAME{LITERAL}: (%arg0: tensor<5xf32, #mesh.shard<@g, [[0]]>>) -> tensor<5xf32, #mesh.shard<@g, [[0]]>>
// CHECK-NEXT: %[[ABS:.*]] = math.absf %arg0
// CHECK-NEXT: return %[[ABS]]
func.func @boundary(%x: tensor<5xf32>) -> tensor<5xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<5xf32>
  %1 = math.absf %0 : tensor<5xf32>
  %2 = shard.shard %1 to %s : tensor<5xf32>
  return %2 : tensor<5xf32>
}

// Beside what is required, a hint may be uneven as well.
// CHECK-LABEL: func.func @hint
// CHECK: math.absf %{{.*}} : tensor<3xf32, #mesh.shard<@g, {{\[\[}}0]]>>
func.func @hint(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "mesh.annotate"(%y) {sharding = #mesh.shard<@g, [[0]]>, required = false, as_result = false} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = math.absf %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}
