// A device's index and a number of devices are of a cluster that is named, or the function's, along one axis, several or all.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
"mesh.cluster"() {sym_name = "open", rank = 1 : i64} : () -> ()

// CHECK-LABEL: func.func @where
func.func @where() -> (index, index, index, index, index, index) attributes {mesh_cluster = @g} {
  // CHECK: mesh.idx : index
  %0 = "mesh.idx"() : () -> index
  // CHECK: mesh.idx {mesh_axis = [1]} : index
  %1 = "mesh.idx"() {mesh_axis = [1]} : () -> index
  // CHECK: mesh.idx {cluster = @g, mesh_axis = [1, 0]} : index
  %2 = "mesh.idx"() {cluster = @g, mesh_axis = [1, 0]} : () -> index
  // CHECK: mesh.size : index
  %3 = "mesh.size"() : () -> index
  // CHECK: mesh.size {mesh_axis = [0]} : index
  %4 = "mesh.size"() {mesh_axis = [0]} : () -> index
  // CHECK: mesh.size {cluster = @open} : index
  %5 = "mesh.size"() {cluster = @open} : () -> index
  // CHECK: mesh.idx {axis = 1 : index} : index
  %6 = "mesh.idx"() {axis = 1 : index} : () -> index
  // CHECK: mesh.size {axis = 0 : index, cluster = @open} : index
  %7 = "mesh.size"() {axis = 0 : index, cluster = @open} : () -> index
  return %0, %1, %2, %3, %4, %5 : index, index, index, index, index, index
}
