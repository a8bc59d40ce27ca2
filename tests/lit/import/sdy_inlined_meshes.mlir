// A mesh that is written out in a sharding gets a name, or that of the one declared like it.
//
// RUN: shard-opt %s --import | filecheck %s

// CHECK: mesh.cluster @inlined_mesh_1(rank = 1, dim_sizes = [4]) {axis_names = ["z"]}
// CHECK: mesh.cluster @m(rank = 1, dim_sizes = [2]) {axis_names = ["x"]}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<["w"=2]>, sym_name = "inlined_mesh_0"}> : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-SAME{LITERAL}: (%arg0: tensor<4xf32> {mesh.sharding = #mesh.shard<@m, [[0]]>}, %arg1: tensor<4xf32> {mesh.sharding = #mesh.shard<@inlined_mesh_1, [[0]]>}, %arg2: tensor<4xf32> {mesh.sharding = #mesh.shard<@inlined_mesh_1, [[]]>})
func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2]>, [{"x"}]>},
                %y: tensor<4xf32> {sdy.sharding = #sdy.sharding<mesh<["z"=4]>, [{"z"}]>},
                %z: tensor<4xf32> {sdy.sharding = #sdy.sharding<mesh<["z"=4]>, [{}]>}) {
  return
}
