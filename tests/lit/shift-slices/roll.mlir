// A rolled tensor is a `mesh.roll`, for which each device sends its last rows to the next. Where the devices do not
// divide the dimension it is shifted, which reads a halo, and gets the elements that wrap around from a small sum.
//
// RUN: shard-opt %s --propagate --shift-slices | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL
// RUN: shard-run %s --entry=roll --check | filecheck %s --check-prefix=RUNS
// RUN: shard-run %s --entry=even --check | filecheck %s --check-prefix=RUNS

shard.grid @g(shape = 4)

// CHECK-LABEL: func.func @roll(
// CHECK: %[[BASE:.*]] = stablehlo.pad %arg0, {{.*}} low = [1, 0], high = [-1, 0]
// CHECK: %[[EDGE:.*]] = stablehlo.dynamic_slice %arg0, {{.*}} sizes = [1, 8]
// CHECK: stablehlo.dynamic_update_slice %[[BASE]], %[[EDGE]]
// CHECK-NOT: stablehlo.concatenate

// LOCAL-LABEL: func.func @roll(
// LOCAL-DAG: shard.update_halo
// LOCAL-DAG: shard.all_reduce {{.*}} : tensor<1x8xf32> -> tensor<1x8xf32>
// LOCAL-NOT: shard.all_to_all

// RUNS: check passed
func.func @roll(%x: tensor<61x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<61x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %a = stablehlo.slice %x [60:61, 0:8] : (tensor<61x8xf32>) -> tensor<1x8xf32>
  %b = stablehlo.slice %x [0:60, 0:8] : (tensor<61x8xf32>) -> tensor<60x8xf32>
  %c = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1x8xf32>, tensor<60x8xf32>) -> tensor<61x8xf32>
  return %c : tensor<61x8xf32>
}

// CHECK-LABEL: func.func @even(
// CHECK-DAG: mesh.roll %arg0 {by = 1 : i64, {{.*}} tensor_axis = 0 : i64}
// CHECK-DAG: mesh.roll %arg0 {by = -1 : i64, {{.*}} tensor_axis = 0 : i64}
// CHECK-NOT: stablehlo.slice
// LOCAL-LABEL: func.func @even(
// LOCAL: "mesh.collective_permute"({{.*}} permutation = [1, 2, 3, 0]} : (tensor<1x8xf32>)
// LOCAL: "mesh.collective_permute"({{.*}} permutation = [3, 0, 1, 2]} : (tensor<1x8xf32>)
// LOCAL-NOT: shard.all_reduce
func.func @even(%x: tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %a = stablehlo.slice %x [63:64, 0:8] : (tensor<64x8xf32>) -> tensor<1x8xf32>
  %b = stablehlo.slice %x [0:63, 0:8] : (tensor<64x8xf32>) -> tensor<63x8xf32>
  %before = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1x8xf32>, tensor<63x8xf32>) -> tensor<64x8xf32>
  %c = stablehlo.slice %x [1:64, 0:8] : (tensor<64x8xf32>) -> tensor<63x8xf32>
  %d = stablehlo.slice %x [0:1, 0:8] : (tensor<64x8xf32>) -> tensor<1x8xf32>
  %after = stablehlo.concatenate %c, %d, dim = 0 : (tensor<63x8xf32>, tensor<1x8xf32>) -> tensor<64x8xf32>
  %sum = stablehlo.add %before, %after : tensor<64x8xf32>
  return %sum : tensor<64x8xf32>
}

// Half of the tensor moves: each device exchanges its shard with another one.
// CHECK-LABEL: func.func @far(
// CHECK: mesh.roll
func.func @far(%x: tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %a = stablehlo.slice %x [32:64, 0:8] : (tensor<64x8xf32>) -> tensor<32x8xf32>
  %b = stablehlo.slice %x [0:32, 0:8] : (tensor<64x8xf32>) -> tensor<32x8xf32>
  %c = stablehlo.concatenate %a, %b, dim = 0 : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
  return %c : tensor<64x8xf32>
}

// Of two columns only these move.
// CHECK-LABEL: func.func @columns(
// CHECK: %[[TWO:.*]] = stablehlo.slice %arg0 [0:64, 2:4]
// CHECK-NEXT: mesh.roll %[[TWO]]
func.func @columns(%x: tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<64x2xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %t = stablehlo.slice %x [0:64, 2:4] : (tensor<64x8xf32>) -> tensor<64x2xf32>
  %a = stablehlo.slice %t [63:64, 0:2] : (tensor<64x2xf32>) -> tensor<1x2xf32>
  %b = stablehlo.slice %t [0:63, 0:2] : (tensor<64x2xf32>) -> tensor<63x2xf32>
  %c = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1x2xf32>, tensor<63x2xf32>) -> tensor<64x2xf32>
  return %c : tensor<64x2xf32>
}

// Nothing is split: the ops stay.
// CHECK-LABEL: func.func @unsplit(
// CHECK: stablehlo.concatenate
func.func @unsplit(%x: tensor<64x8xf32>) -> tensor<64x8xf32> {
  %a = stablehlo.slice %x [63:64, 0:8] : (tensor<64x8xf32>) -> tensor<1x8xf32>
  %b = stablehlo.slice %x [0:63, 0:8] : (tensor<64x8xf32>) -> tensor<63x8xf32>
  %c = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1x8xf32>, tensor<63x8xf32>) -> tensor<64x8xf32>
  return %c : tensor<64x8xf32>
}

// The gradient of a roll, as JAX writes it: zeros pad the parts, and a sum joins them.
// RUN: shard-run %s --entry=gradient --check | filecheck %s --check-prefix=RUNS

// CHECK-LABEL: func.func @gradient(
// CHECK-NOT: stablehlo.pad
// CHECK: mesh.roll %arg0
// CHECK-NOT: stablehlo.add

// LOCAL-LABEL: func.func @gradient(
// LOCAL: mesh.collective_permute
// LOCAL-NOT: shard.all_
func.func @gradient(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.slice %x [0:1, 0:8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %b = stablehlo.slice %x [1:4, 0:8] : (tensor<4x8xf32>) -> tensor<3x8xf32>
  %c = stablehlo.pad %a, %zero, low = [3, 0], high = [0, 0], interior = [0, 0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %d = stablehlo.pad %b, %zero, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<3x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %e = stablehlo.add %c, %d : tensor<4x8xf32>
  return %e : tensor<4x8xf32>
}
