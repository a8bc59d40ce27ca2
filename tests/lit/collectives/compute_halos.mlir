// Halos that operands have are computed, and not exchanged once more.
//
// RUN: shard-opt %s --compute-halos --fold-collectives | filecheck %s
// RUN: shard-opt %s --optimize-collectives | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @elementwise
// CHECK-NOT: mesh.update_halo
// CHECK: math.exp %arg0 : tensor<8xf32, #mesh.shard<@g, {{\[\[}}0], {halo = {{\[\[}}1, 2]]}]>>
// CHECK-NEXT: arith.addf
// CHECK-NEXT: return
func.func @elementwise(%x: tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>)
    -> tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>> {
  %0 = "mesh.update_halo"(%x) : (tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %1 = math.exp %0 : tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %2 = arith.addf %1, %1 : tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %3 = "mesh.update_halo"(%2) : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>
  return %3 : tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>
}

// What every device has all of is sliced with its halo.
// CHECK-LABEL: func.func @replicated
// CHECK-NOT: mesh.update_halo
// CHECK: %[[Y:.*]] = mesh.local_split %arg1 {sharding = {{\[\[}}0]]}
// CHECK-NEXT: arith.addf %arg0, %[[Y]]
// CHECK-NEXT: return
func.func @replicated(%x: tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>, %y: tensor<8xf32>)
    -> tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>> {
  %0 = "mesh.update_halo"(%x) : (tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %1 = "mesh.local_split"(%y) {sharding = [[0]]} : (tensor<8xf32>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %2 = arith.addf %0, %1 : tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %3 = "mesh.update_halo"(%2) : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>
  return %3 : tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>
}

// The other operand's halo would have to be exchanged: nothing is gained.
// CHECK-LABEL: func.func @another_operand
// CHECK: arith.addf %{{.*}}, %arg1 : tensor<8xf32, #mesh.shard<@g, {{\[\[}}0]]>>
// CHECK-NEXT: mesh.update_halo
func.func @another_operand(%x: tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>, %y: tensor<8xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>> {
  %0 = "mesh.update_halo"(%x) : (tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %1 = arith.addf %0, %y : tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %2 = "mesh.update_halo"(%1) : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>
  return %2 : tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>
}

// A division of integers could end the program in the halo outside of the tensor.
// CHECK-LABEL: func.func @division
// CHECK: arith.divsi %{{.*}} : tensor<8xi32, #mesh.shard<@g, {{\[\[}}0]]>>
// CHECK-NEXT: mesh.update_halo
func.func @division(%x: tensor<8xi32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>)
    -> tensor<8xi32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>> {
  %0 = "mesh.update_halo"(%x) : (tensor<8xi32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>) -> tensor<8xi32, #mesh.shard<@g, [[0]]>>
  %1 = arith.divsi %0, %0 : tensor<8xi32, #mesh.shard<@g, [[0]]>>
  %2 = "mesh.update_halo"(%1) : (tensor<8xi32, #mesh.shard<@g, [[0]]>>) -> tensor<8xi32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>
  return %2 : tensor<8xi32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>
}

// So could one in a body.
// CHECK-LABEL: func.func @division_in_a_body
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<8xi32, #mesh.shard<@g, {{\[\[}}0]]>>)
func.func @division_in_a_body(%x: tensor<8xi32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>)
    -> tensor<8xi32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>> {
  %0 = "mesh.update_halo"(%x) : (tensor<8xi32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>) -> tensor<8xi32, #mesh.shard<@g, [[0]]>>
  %e = tensor.empty() : tensor<8xi32, #mesh.shard<@g, [[0]]>>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%0 : tensor<8xi32, #mesh.shard<@g, [[0]]>>) outs(%e : tensor<8xi32, #mesh.shard<@g, [[0]]>>) {
    ^bb0(%a: i32, %b: i32):
      %q = arith.divsi %a, %a : i32
      linalg.yield %q : i32
  } -> tensor<8xi32, #mesh.shard<@g, [[0]]>>
  %2 = "mesh.update_halo"(%1) : (tensor<8xi32, #mesh.shard<@g, [[0]]>>) -> tensor<8xi32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>
  return %2 : tensor<8xi32, #mesh.shard<@g, [[0], {halo = [[1, 2]]}]>>
}

// Two readers share the larger halo, and a third one reads none.
// CHECK-LABEL: func.func @several_users
// CHECK: math.exp %arg0 : tensor<8xf32, #mesh.shard<@g, {{\[\[}}0], {halo = {{\[\[}}2, 2]]}]>>
func.func @several_users(%x: tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[2, 2]]}]>>)
    -> (tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[2, 0]]}]>>, tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[0, 2]]}]>>, tensor<8xf32, #mesh.shard<@g, [[0]]>>) {
  %0 = "mesh.update_halo"(%x) : (tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[2, 2]]}]>>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %1 = math.exp %0 : tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %2 = "mesh.update_halo"(%1) : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[2, 0]]}]>>
  %3 = "mesh.update_halo"(%1) : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[0, 2]]}]>>
  return %2, %3, %1 : tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[2, 0]]}]>>, tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[0, 2]]}]>>, tensor<8xf32, #mesh.shard<@g, [[0]]>>
}
