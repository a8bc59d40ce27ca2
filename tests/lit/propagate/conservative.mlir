// Conservative propagation takes no axis apart, and splits no dimension that an axis does not divide.
//
// RUN: shard-opt %s --propagate=conservative --import  | filecheck %s
// RUN: shard-opt %s --propagate='strategy=basic conservative' --import  | filecheck %s
// RUN: shard-opt %s --propagate --import  | filecheck %s --check-prefix=USUAL
// RUN: not shard-opt %s --propagate='traversal=forward conservative' --import  2>&1 | filecheck %s --check-prefix=BOTH

// BOTH: error: pass 'propagate' has traversal=forward and conservative: a traversal goes as upstream's pass does; give one of the two

sdy.mesh @m = <["a"=2, "b"=4]>

// CHECK-LABEL: @taken_apart
// CHECK: stablehlo.reshape %arg0 {mesh.shardings = [#mesh.shard<@m, {{\[\[\], \[\], \[\]\]>}}]}
// USUAL-LABEL: @taken_apart
// USUAL: stablehlo.reshape %arg0 {mesh.shardings = [#mesh.shard<@m, {{\[\["1:\(1\)2"\], \["1:\(2\)2", 0\], \[\]\]>}}]}
func.func @taken_apart(%x: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@m, [{"b", "a"}, {}]>}) -> tensor<2x4x3xf32> {
  %0 = stablehlo.reshape %x : (tensor<8x3xf32>) -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}

// CHECK-LABEL: @does_not_divide
// CHECK: stablehlo.tanh %arg0 {mesh.shardings = [#mesh.shard<@m, {{\[\[\], \[0\]\]>}}]}
// USUAL-LABEL: @does_not_divide
// USUAL: stablehlo.tanh %arg0 {mesh.shardings = [#mesh.shard<@m, {{\[\[1\], \[0\]\]>}}]}
func.func @does_not_divide(%x: tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"b"}, {"a"}]>}) -> tensor<6x4xf32> {
  %0 = stablehlo.tanh %x : tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}

// CHECK-LABEL: @divides
// CHECK: stablehlo.tanh %arg0 {mesh.shardings = [#mesh.shard<@m, {{\[\[0, 1\], \[\]\]>}}]}
// USUAL-LABEL: @divides
func.func @divides(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a", "b"}, {}]>}) -> tensor<8x4xf32> {
  %0 = stablehlo.tanh %x : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
