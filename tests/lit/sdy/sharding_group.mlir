// Tensors join groups by number.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

// CHECK-LABEL: func.func @groups
func.func @groups(%x: tensor<8xf32>, %y: tensor<8xf32>) {
  // CHECK: "sdy.sharding_group"(%arg0) {group_id = 21 : i64} : (tensor<8xf32>) -> ()
  "sdy.sharding_group"(%x) <{group_id = 21 : i64}> : (tensor<8xf32>) -> ()
  // CHECK: "sdy.sharding_group"(%arg1) {group_id = 21 : i64} : (tensor<8xf32>) -> ()
  "sdy.sharding_group"(%y) <{group_id = 21 : i64}> : (tensor<8xf32>) -> ()
  return
}
