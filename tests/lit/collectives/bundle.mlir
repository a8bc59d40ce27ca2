// Small all-reduces of one kind and group are one, where none needs another.
//
// RUN: shard-opt %s --bundle-collectives | filecheck %s
// RUN: shard-opt %s --optimize-collectives | filecheck %s
// RUN: shard-opt %s --bundle-collectives=gathers | filecheck %s --check-prefix=ALL
// RUN: shard-opt %s --bundle-collectives="bytes=32" | filecheck %s --check-prefix=SMALL

shard.grid @g(shape = 2x2)
shard.grid @p(shape = 2x2)

// CHECK-LABEL: func.func @three
// CHECK: tensor.concat dim(0)
// CHECK-NEXT: shard.all_reduce {{.*}} tensor<11xf32>
// CHECK-NOT: shard.all_reduce
// CHECK: return
// SMALL-LABEL: func.func @three
// SMALL: shard.all_reduce {{.*}} tensor<2x3xf32>
// SMALL: shard.all_reduce {{.*}} tensor<5xf32>
func.func @three(%a: tensor<4xf32>, %b: tensor<2x3xf32>, %c: tensor<f32>) -> (tensor<4xf32>, tensor<2x3xf32>, tensor<f32>) attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %a on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %1 = shard.all_reduce %c on @g grid_axes = [0] : tensor<f32> -> tensor<f32>
  %2 = shard.all_reduce %b on @g grid_axes = [0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return %0, %2, %1 : tensor<4xf32>, tensor<2x3xf32>, tensor<f32>
}

// One needs another, or is of another kind, group or element type.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: tensor.concat
// CHECK: return
func.func @apart(%a: tensor<4xf32>, %b: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>) attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %a on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  %2 = shard.all_reduce %1 on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %3 = shard.all_reduce %a on @g grid_axes = [1] : tensor<4xf32> -> tensor<4xf32>
  %4 = shard.all_reduce %a on @g grid_axes = [0] reduction = max : tensor<4xf32> -> tensor<4xf32>
  %5 = shard.all_reduce %b on @g grid_axes = [0] : tensor<4xi32> -> tensor<4xi32>
  return %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>
}

// Done before the first use, with those that are ready then.
// CHECK-LABEL: func.func @used_between
// CHECK: shard.all_reduce {{.*}} tensor<8xf32>
// CHECK: math.exp
// CHECK: shard.all_reduce {{.*}} tensor<4xf32>
func.func @used_between(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %a on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %1 = shard.all_reduce %b on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %2 = math.exp %1 : tensor<4xf32>
  %3 = shard.all_reduce %2 on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  return %0, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// There is nothing to join of a tensor without elements.
// CHECK-LABEL: func.func @nothing
// CHECK-NOT: tensor.concat
// CHECK: return
func.func @nothing(%a: tensor<4xf32>, %b: tensor<0xf32>) -> (tensor<4xf32>, tensor<0xf32>) attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %a on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %1 = shard.all_reduce %b on @g grid_axes = [0] : tensor<0xf32> -> tensor<0xf32>
  return %0, %1 : tensor<4xf32>, tensor<0xf32>
}

// Gathers along other dimensions: in a bundle, what one device has is a row.
// ALL-LABEL: func.func @gathers
// ALL: shard.all_gather {{.*}} gather_axis = 0 : tensor<1x14xf32> -> tensor<2x14xf32>
// ALL-NOT: shard.all_gather
// ALL: return
func.func @gathers(%a: tensor<2x4xf32>, %b: tensor<6xf32>) -> (tensor<2x8xf32>, tensor<12xf32>) attributes {mesh.form = "local"} {
  %0 = shard.all_gather %a on @g grid_axes = [0] gather_axis = 1 : tensor<2x4xf32> -> tensor<2x8xf32>
  %1 = shard.all_gather %b on @g grid_axes = [0] gather_axis = 0 : tensor<6xf32> -> tensor<12xf32>
  return %0, %1 : tensor<2x8xf32>, tensor<12xf32>
}

// What computes an operand of arguments is done before the bundle.
// ALL-LABEL: func.func @computed_of_arguments
// ALL: shard.all_gather {{.*}} tensor<1x8xf32> -> tensor<2x8xf32>
// ALL-NOT: shard.all_gather
// ALL: return
func.func @computed_of_arguments(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8xf32> attributes {mesh.form = "local"} {
  %0 = shard.all_gather %a on @g grid_axes = [0] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>
  %1 = math.exp %0 : tensor<8xf32>
  %2 = math.exp %b : tensor<4xf32>
  %3 = math.sqrt %2 : tensor<4xf32>
  %4 = shard.all_gather %3 on @g grid_axes = [0] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>
  %5 = arith.addf %1, %4 : tensor<8xf32>
  return %5 : tensor<8xf32>
}

// Scattered as soon as both operands are there: the whole tensors are not kept until the end.
// ALL-LABEL: func.func @scattered_soon
// ALL: shard.reduce_scatter {{.*}} tensor<2x4xf32> -> tensor<1x4xf32>
// ALL: math.exp
// ALL: return
func.func @scattered_soon(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<4xf32>) attributes {mesh.form = "local"} {
  %0 = math.sqrt %a : tensor<4xf32>
  %1 = shard.reduce_scatter %0 on @g grid_axes = [0] scatter_axis = 0 : tensor<4xf32> -> tensor<2xf32>
  %4 = math.sqrt %1 : tensor<2xf32>
  %2 = shard.reduce_scatter %b on @g grid_axes = [0] scatter_axis = 0 : tensor<4xf32> -> tensor<2xf32>
  %3 = math.exp %b : tensor<4xf32>
  return %4, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<4xf32>
}

// What a member of one bundle gives to one of another stays where it is.
// CHECK-LABEL: func.func @one_feeds_another
// CHECK: return
func.func @one_feeds_another(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %a on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %1 = shard.all_reduce %b on @g grid_axes = [1] : tensor<4xf32> -> tensor<4xf32>
  %2 = shard.all_reduce %0 on @g grid_axes = [1] : tensor<4xf32> -> tensor<4xf32>
  %3 = math.exp %1 : tensor<4xf32>
  %4 = math.exp %3 : tensor<4xf32>
  %5 = shard.all_reduce %c on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  return %2, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Two permutations that follow on each other are one: what 0 sends to 1 along both axes, and 1 to 3 along the first, goes
// from 0 to 3.
// CHECK-LABEL: func.func @permutations
// CHECK-NEXT: "mesh.collective_permute"(%arg0) {cluster = @p, mesh_axis = [0, 1], permutation = [3, 2, 0, -1]}
// CHECK-NEXT: return
func.func @permutations(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  %0 = "mesh.collective_permute"(%x) {cluster = @p, mesh_axis = [0, 1], permutation = [1, 0, 2, -1]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.collective_permute"(%0) {cluster = @p, mesh_axis = [0], permutation = [1, 0]} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// The first is read by others, too.
// CHECK-LABEL: func.func @permutations_apart
// CHECK-COUNT-2: "mesh.collective_permute"
func.func @permutations_apart(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {mesh.form = "local"} {
  %0 = "mesh.collective_permute"(%x) {cluster = @p, mesh_axis = [0, 1], permutation = [1, 0, 2, 3]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.collective_permute"(%0) {cluster = @p, mesh_axis = [0], permutation = [1, 0]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// A reversal's permutation is joined with the gather behind it, which then has the shards in another order.
// CHECK-LABEL: func.func @permutation_and_gather
// CHECK-NEXT: %[[R:.*]] = stablehlo.reverse %arg0
// CHECK-NEXT: %[[G:.*]] = shard.all_gather %[[R]]
// CHECK-NEXT: %[[B:.*]] = tensor.extract_slice %[[G]][4] [4]
// CHECK-NEXT: %[[A:.*]] = tensor.extract_slice %[[G]][0] [4]
// CHECK-NEXT: tensor.concat dim(0) %[[B]], %[[A]]
func.func @permutation_and_gather(%x: tensor<4xf32>) -> tensor<8xf32> attributes {mesh.form = "local"} {
  %0 = "mesh.collective_permute"(%x) {cluster = @p, mesh_axis = [0], permutation = [1, 0]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<4xf32>
  %2 = shard.all_gather %1 on @p grid_axes = [0] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// What each device adds is its own.
// CHECK-LABEL: func.func @permutation_and_own
// CHECK: "mesh.collective_permute"
func.func @permutation_and_own(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<8xf32> attributes {mesh.form = "local"} {
  %0 = "mesh.collective_permute"(%x) {cluster = @p, mesh_axis = [0], permutation = [1, 0]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %y : tensor<4xf32>
  %2 = shard.all_gather %1 on @p grid_axes = [0] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
