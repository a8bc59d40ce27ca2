// A column behind a short form that was filled in is the file's own.
//
// RUN: not shard-opt %s 2>&1 | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @f(%x: tensor<4x8xf32, #mesh.shard<[[0]]>>, %y: oops) attributes {mesh_cluster = @g} {
  return
}
// CHECK: mesh_short_forms_invalid.mlir:6:58: error: expected non-function type
