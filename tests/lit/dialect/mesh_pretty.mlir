// The RFC's spelling of its ops, with space and comments anywhere; printed, it stays the same.
//
// RUN: shard-opt %s --mesh-pretty | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt --mesh-pretty | filecheck %s
// RUN: shard-opt %s --mesh-pretty | shard-opt --mesh-pretty | filecheck %s
// RUN: shard-opt %s --mesh-pretty --mlir-print-op-generic | shard-opt --mesh-pretty | filecheck %s

// CHECK: mesh.cluster @mesh0(rank = 3, dim_sizes = [4, 8, 12])
mesh.cluster @mesh0(rank = 3, dim_sizes = [4, 8, 12])
// CHECK-NEXT: mesh.cluster @mesh1(rank = 2, dim_sizes = [0, 4])
mesh.cluster @mesh1(rank = 2, dim_sizes = [0, 4])
// CHECK-NEXT: mesh.cluster @mesh2(rank = 2)
mesh.cluster @mesh2 (rank = 2)
// CHECK-NEXT: mesh.cluster @"a grid"(rank = 2, dim_sizes = [2, 4]) {axis_names = ["x", "(y"]}
mesh.cluster @"a grid"( // mesh.cluster @in_a_comment(
  rank = 2, dim_sizes = [2, 4]) {axis_names = ["x", "(y"]}
// CHECK-NEXT: mesh.sub_cluster @part(cluster = @"a grid", offsets = [0, 0], sizes = [2, 2])
mesh.sub_cluster @part(cluster = @"a grid", offsets = [0, 0], sizes = [2, 2])
// CHECK-NEXT: mesh.cluster @g(rank = 2, dim_sizes = [2, 2])
mesh.cluster @g(rank = 2, dim_sizes = [2, 2])

// A sharding without a grid is on the function's, and is printed so.
// CHECK-LABEL: func.func @annotated(%arg0: tensor<2x5xf32, #mesh.shard<{{\[\[}}0], []]>>, %arg1: tensor<2x5xf32>)
func.func @annotated(%0 : tensor<2x5xf32, #mesh.shard<[[0]]>>, %x: tensor<2x5xf32>) attributes { mesh_cluster = @g } {
  // CHECK-NEXT: %0 = mesh.annotate %arg0 {as_result = false, sharding = {{\[\[}}0]]} : tensor<2x5xf32, #mesh.shard<{{\[\[}}0], []]>> -> tensor<2x5xf32, #mesh.shard<{{\[\[}}0], []]>>
  %s = mesh.annotate %0 {as_result = false, sharding = [[0]]} : tensor<2x5xf32, // a sharding that is copied
    #mesh.shard<[[0]]>>
  // CHECK-NEXT: %1 = mesh.annotate %arg1 {as_result = false, required = true, sharding = {{\[\[}}0], [1]]} : tensor<2x5xf32> -> tensor<2x5xf32>
  %1 = mesh.annotate %x {sharding = [[0], [1]], required = true,
  as_result = false} : tensor<2x5xf32>
    -> tensor<2x5xf32>
  // CHECK-NEXT: %2 = mesh.annotate %1 {as_result = false, sharding = #mesh.shard<{{\[\[}}0]]>} : tensor<2x5xf32> -> tensor<2x5xf32>
  %2 = mesh.annotate %1 {as_result = false, #mesh.shard<[[0]]>} : tensor<2x5xf32>
  // CHECK-NEXT: %3 = mesh.annotate %2 {as_result = false, sharding = #mesh.shard<@mesh0, {{\[\[}}0], [1]]>} : tensor<2x5xf32> -> tensor<2x5xf32>
  %3 = mesh.annotate %2 {#mesh.shard<@mesh0, [ [0], [1] ]>, as_result = false} : tensor<2x5xf32>
  // CHECK-NEXT: %4 = mesh.size {axis = 1 : index} : index
  %4 = mesh.size {axis = 1 : index} : index
  // CHECK-NEXT: mesh.sharding_group %3 {group_id = 3 : i64} : tensor<2x5xf32>
  mesh.sharding_group %3 {group_id = 3} : tensor<2x5xf32>
  return
}

// CHECK-LABEL: func.func @sized
func.func @sized(%x: tensor<8xf32>, %n: i64) {
  // CHECK-NEXT: %0 = mesh.annotate %arg0, %arg1 {sharding = #mesh.shard<@g, {{\[\[}}0], {halo = {{\[\[}}1, "?"]]}]>} : tensor<8xf32>, i64 -> tensor<8xf32>
  %0 = mesh.annotate %x, %n {#mesh.shard<@g, [[0], {halo = [[1, "?"]]}]>} : tensor<8xf32>, i64 -> tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @on_one_device
func.func @on_one_device(%x: tensor<8xf32>) -> index attributes {mesh_cluster = @g, mesh.form = "local"} {
  // CHECK-NEXT: %0 = mesh.idx {axis = 0 : index} : index
  %0 = mesh.idx(0)
  // CHECK-NEXT: %1 = mesh.idx {axis = 1 : index} : index
  %1 = mesh.idx {axis = 1 : index} : index
  // CHECK-NEXT: %2 = arith.addi %0, %1 : index
  %2 = arith.addi %0, %1 : index
  return %2 : index
}
