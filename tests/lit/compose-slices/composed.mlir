// Slices are of what elements come from; reversals, concatenations and slices that follow each other
// are one.
//
// RUN: shard-opt %s --compose-slices | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @behind_a_concatenation
// CHECK-NEXT: %[[SLICE:.*]] = stablehlo.slice %arg0 [60:64] : (tensor<64xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[REVERSED:.*]] = stablehlo.reverse %[[SLICE]], dims = [0] : tensor<4xf32>
// CHECK-NEXT: return %[[REVERSED]]
func.func @behind_a_concatenation(%x: tensor<64xf32>, %y: tensor<8xf32>) -> tensor<4xf32> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<64xf32>
  %1 = stablehlo.concatenate %0, %y, dim = 0 : (tensor<64xf32>, tensor<8xf32>) -> tensor<72xf32>
  %2 = stablehlo.slice %1 [0:4] : (tensor<72xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// The rows are padded: only the columns are taken before.
// CHECK-LABEL: func.func @beside_a_padding
// CHECK: %[[SLICE:.*]] = stablehlo.slice %arg0 [0:8, 2:4]
// CHECK-NEXT: %[[PADDED:.*]] = stablehlo.pad %[[SLICE]], %{{.*}}, low = [1, 0], high = [1, 0], interior = [0, 0]
// CHECK-NEXT: stablehlo.slice %[[PADDED]] [0:9:2, 0:2]
func.func @beside_a_padding(%x: tensor<8x8xf32>) -> tensor<5x2xf32> {
  %0 = stablehlo.constant dense<2.0> : tensor<f32>
  %1 = stablehlo.pad %x, %0, low = [1, 3], high = [1, 0], interior = [0, 0] : (tensor<8x8xf32>, tensor<f32>) -> tensor<10x11xf32>
  %2 = stablehlo.slice %1 [0:9:2, 5:7:1] : (tensor<10x11xf32>) -> tensor<5x2xf32>
  return %2 : tensor<5x2xf32>
}

// CHECK-LABEL: func.func @turned_twice
// CHECK-NEXT: return %arg0
func.func @turned_twice(%x: tensor<8x1xf32>) -> tensor<8x1xf32> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<8x1xf32>
  %1 = stablehlo.reverse %0, dims = [0, 1] : tensor<8x1xf32>
  return %1 : tensor<8x1xf32>
}

// CHECK-LABEL: func.func @turned_parts
// CHECK-NEXT: %[[WHOLE:.*]] = stablehlo.concatenate %arg1, %arg0, dim = 0
// CHECK-NEXT: stablehlo.reverse %[[WHOLE]], dims = [0]
func.func @turned_parts(%x: tensor<8xf32>, %y: tensor<4xf32>) -> tensor<12xf32> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<8xf32>
  %1 = stablehlo.reverse %y, dims = [0] : tensor<4xf32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<8xf32>, tensor<4xf32>) -> tensor<12xf32>
  return %2 : tensor<12xf32>
}

// CHECK-LABEL: func.func @joined_again
// CHECK-NEXT: stablehlo.concatenate %arg0, %arg1, %arg0, dim = 0
func.func @joined_again(%x: tensor<8xf32>, %y: tensor<4xf32>) -> tensor<20xf32> {
  %0 = stablehlo.slice %x [0:3] : (tensor<8xf32>) -> tensor<3xf32>
  %1 = stablehlo.slice %x [3:8] : (tensor<8xf32>) -> tensor<5xf32>
  %2 = stablehlo.concatenate %0, %1, %y, dim = 0 : (tensor<3xf32>, tensor<5xf32>, tensor<4xf32>) -> tensor<12xf32>
  %3 = stablehlo.concatenate %2, %x, dim = 0 : (tensor<12xf32>, tensor<8xf32>) -> tensor<20xf32>
  return %3 : tensor<20xf32>
}

// CHECK-LABEL: func.func @written_over
// CHECK-NEXT: return %arg1
func.func @written_over(%x: tensor<8xf32>, %y: tensor<8xf32>, %i: tensor<i32>) -> tensor<8xf32> {
  %0 = stablehlo.dynamic_update_slice %x, %y, %i : (tensor<8xf32>, tensor<8xf32>, tensor<i32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// What is annotated stays, and so does what is read as it is.
// CHECK-LABEL: func.func @annotated
// CHECK-NEXT: stablehlo.reverse %arg0, dims = [0] {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
// CHECK-NEXT: stablehlo.slice
// CHECK-NEXT: stablehlo.reverse %arg0, dims = [0]
// CHECK-NEXT: stablehlo.slice
func.func @annotated(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) {
  %0 = stablehlo.reverse %x, dims = [0] {mesh.shardings = [#mesh.shard<@g, [[0]]>]} : tensor<8xf32>
  %1 = stablehlo.slice %0 [0:4] : (tensor<8xf32>) -> tensor<4xf32>
  %2 = stablehlo.reverse %x, dims = [0] : tensor<8xf32>
  %3 = stablehlo.slice %2 [0:4] : (tensor<8xf32>) -> tensor<4xf32>
  return %1, %3, %2 : tensor<4xf32>, tensor<4xf32>, tensor<8xf32>
}

// The first elements of a sort stay, which `split-reductions` finds on each shard.
// CHECK-LABEL: func.func @second_largest
// CHECK: stablehlo.slice %{{.*}} [0:2]
// CHECK-NEXT: stablehlo.slice %{{.*}} [1:2]
func.func @second_largest(%x: tensor<8xf32>) -> tensor<1xf32> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.slice %0 [0:2] : (tensor<8xf32>) -> tensor<2xf32>
  %2 = stablehlo.slice %1 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
  return %2 : tensor<1xf32>
}

// Windows over a reversal begin at the other end: of 3, moved by 2, none reads element 0.
// CHECK-LABEL: func.func @windows
// CHECK: %[[TAKEN:.*]] = stablehlo.slice %arg0 [1:8]
// CHECK-NEXT: %[[SUMS:.*]] = "stablehlo.reduce_window"(%[[TAKEN]], {{.*}}padding = dense<{{..}}0, 2]]>
// CHECK: %[[REVERSED:.*]] = stablehlo.reverse %[[SUMS]], dims = [0] : tensor<4xf32>
// CHECK-NEXT: return %[[REVERSED]]
func.func @windows(%x: tensor<8xf32>) -> tensor<4xf32> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<8xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = "stablehlo.reduce_window"(%0, %zero) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 2>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
