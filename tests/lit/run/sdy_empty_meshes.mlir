// What is on an empty mesh is replicated on whichever meshes there are; a manual computation may have no boundary.
//
// REQUIRES: jaxlib
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check

sdy.mesh @e = <[]>
sdy.mesh @n = <["a"=4]>
sdy.mesh @m = <["x"=2, "y"=2], device_ids=[3, 1, 2, 0]>

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@e, [{}, {}]>},
                %y: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@n, [{"a"}, {}]>}) {
  %0 = stablehlo.add %x, %y {sdy.sharding = #sdy.sharding_per_value<[<@e, [{}, {}]>]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @manual(%arg0: tensor<8xf32>
// CHECK: stablehlo.slice
func.func @manual(%x: tensor<8xf32>) -> tensor<8xf32> {
  sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={} () {
    sdy.return
  } : () -> ()
  %0 = sdy.manual_computation(%x) in_shardings=[<@e, [{}]>] out_shardings=[<@m, [{"x"}]>] manual_axes={"y", "x"} (%a: tensor<8xf32>) {
    %1 = stablehlo.slice %a [0:4] : (tensor<8xf32>) -> tensor<4xf32>
    sdy.return %1 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
