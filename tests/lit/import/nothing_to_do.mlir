// What is ours in its one spelling, or no annotation, stays; so do functions in later forms.
//
// RUN: shard-opt %s > %t.before
// RUN: shard-opt %s --import | diff - %t.before
// RUN: shard-opt %s --import | filecheck %s

// CHECK: mesh.cluster
"mesh.cluster"() {dim_sizes = [2], rank = 1 : i64, sym_name = "g"} : () -> ()
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func @plain(%x: tensor<?xf32>, %y: tensor<*xf32>, %z: memref<4xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}
func.func @ours(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32> {
  %0 = "mesh.annotate"(%x) {as_result = true, required = true, sharding = #mesh.shard<@g, [[0]]>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @distributed(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32> attributes {mesh.form = "distributed"} {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0]]} : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @propagated(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> (tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) attributes {propagated} {
  %0 = math.tanh %x {mesh.shardings = [#mesh.shard<@g, [[0]]>]} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
