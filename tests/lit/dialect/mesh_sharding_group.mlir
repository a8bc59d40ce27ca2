// Tensors of a group lie alike; a tensor may be in several.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

// CHECK-LABEL: func.func @groups
func.func @groups(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<?xf32>) {
  // CHECK: mesh.sharding_group %arg0 {group_id = 1 : i64} : tensor<4x8xf32>
  "mesh.sharding_group"(%x) {group_id = 1 : i64} : (tensor<4x8xf32>) -> ()
  // CHECK: mesh.sharding_group %arg1 {group_id = 1 : i64}
  "mesh.sharding_group"(%y) {group_id = 1 : i64} : (tensor<4x8xf32>) -> ()
  // CHECK: mesh.sharding_group %arg0 {group_id = 9 : i64}
  "mesh.sharding_group"(%x) {group_id = 9 : i64} : (tensor<4x8xf32>) -> ()
  // CHECK: mesh.sharding_group %arg2 {group_id = 2 : i32} : tensor<?xf32>
  "mesh.sharding_group"(%z) {group_id = 2 : i32} : (tensor<?xf32>) -> ()
  return
}
