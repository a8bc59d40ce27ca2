// A smaller mesh is the first devices of the largest, and a part of it where they are a box: the
// axes of the largest stay, so that manual computations may be along them.
//
// RUN: shard-opt %s --split-input-file --import --propagate --stop-after=settle-grids | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<["s"=2]>, sym_name = "small"}> : () -> ()
// CHECK: mesh.sub_cluster @first_2(cluster = @m, offsets = [0, 0], sizes = [1, 2])
// CHECK-LABEL: func.func @manual
func.func @manual(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  // CHECK: scf.execute_region
  // CHECK{LITERAL}: mesh.to_local %arg0 {manual_axes = [1], sharding = #mesh.shard<@first_2, [[1], []]>}
  // CHECK: {mesh.manual_axes = [1]
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@small, [{"s"}, {}]>]>,
      manual_axes = #sdy<manual_axes{"s"}>,
      out_shardings = #sdy.sharding_per_value<[<@small, [{"s"}, {}]>]>}> ({
  ^bb0(%a: tensor<4x8xf32>):
    %1 = stablehlo.tanh %a : tensor<4x8xf32>
    "sdy.return"(%1) : (tensor<4x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// The axes of a manual computation stay whole: both meshes become parts of one that has them.
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<["s"=2, "t"=2]>, sym_name = "small"}> : () -> ()
// CHECK: mesh.cluster @devices(rank = 3, dim_sizes = [2, 2, 2])
// CHECK: mesh.sub_cluster @first_4(cluster = @devices, offsets = [0, 0, 0], sizes = [1, 2, 2])
// CHECK{LITERAL}: func.func @half_an_axis(%arg0: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@devices, [[0], [1, 2]]>})
func.func @half_an_axis(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  // CHECK{LITERAL}: mesh.to_local %arg0 {manual_axes = [1], sharding = #mesh.shard<@first_4, [[1], []]>}
  // CHECK: {mesh.manual_axes = [1]
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@small, [{"s"}, {}]>]>,
      manual_axes = #sdy<manual_axes{"s"}>,
      out_shardings = #sdy.sharding_per_value<[<@small, [{"s"}, {}]>]>}> ({
  ^bb0(%a: tensor<4x8xf32>):
    "sdy.return"(%a) : (tensor<4x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// Functions that call each other are on one grid.
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2]>, sym_name = "m"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<["s"=2]>, sym_name = "small"}> : () -> ()
// CHECK: mesh.sub_cluster @first_2(cluster = @m, offsets = [0, 0], sizes = [1, 2])
// CHECK{LITERAL}: func.func @caller(%arg0: tensor<8xf32> {mesh.sharding = #mesh.shard<@first_2, [[1]]>})
func.func @caller(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@small, [{"s"}]>}) -> tensor<8xf32> {
  %0 = call @callee(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
// CHECK{LITERAL}: func.func private @callee(%arg0: tensor<8xf32> {mesh.sharding = #mesh.shard<@m, [[0]]>})
func.func private @callee(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// The first three of 2x2 devices are no box: both meshes become a line and a part of it.
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2]>, sym_name = "m"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<["s"=3]>, sym_name = "small"}> : () -> ()
// CHECK: mesh.sub_cluster @first_3(cluster = @devices, offsets = [0], sizes = [3])
// CHECK{LITERAL}: func.func @no_box(%arg0: tensor<12xf32> {mesh.sharding = #mesh.shard<@devices, [["0:(1)2"]]>})
func.func @no_box(%x: tensor<12xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<12xf32> {
  // CHECK{LITERAL}: #mesh.shard<@first_3, [[0]]>
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@small, [{"s"}]>}> : (tensor<12xf32>) -> tensor<12xf32>
  %1 = stablehlo.tanh %0 : tensor<12xf32>
  return %1 : tensor<12xf32>
}
