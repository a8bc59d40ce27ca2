// Collectives go in whole bytes; nothing is said of other integers.
//
// RUN: shard-opt %s --lower | filecheck %s

shard.grid @g(shape = 2)

// CHECK: func.func private @mesh_all_reduce_0(memref<4xi16>, memref<4xi16>)
// CHECK-LABEL: func.func @sum(
// CHECK-SAME: memref<4xi12> {mesh.argument = tensor<4xi12>}
// CHECK: arith.extsi {{.*}} : i12 to i16
// CHECK: call @mesh_all_reduce_0
// CHECK: arith.trunci {{.*}} : i16 to i12
func.func @sum(%x: tensor<4xi12>) -> tensor<4xi12> attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xi12> -> tensor<4xi12>
  return %0 : tensor<4xi12>
}

// CHECK: func.func private @mesh_all_gather_start_0(memref<4xi8>, memref<8xi8>
// CHECK-LABEL: func.func @begun(
// CHECK: arith.extui {{.*}} : i4 to i8
// CHECK: call @mesh_all_gather_start_0
// CHECK: call @mesh_all_gather_done_0
// CHECK: arith.trunci {{.*}} : i8 to i4
func.func @begun(%x: tensor<4xui4>) -> tensor<8xui4> attributes {mesh.form = "local"} {
  %0 = "mesh.start"(%x) {collective = {name = "shard.all_gather", grid = @g, grid_axes = array<i16: 0>, gather_axis = 0 : index}} : (tensor<4xui4>) -> tensor<8xui4>
  %1 = "mesh.done"(%0) : (tensor<8xui4>) -> tensor<8xui4>
  return %1 : tensor<8xui4>
}
