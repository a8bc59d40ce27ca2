// What a manual computation cannot say, or what no collective does, is refused where it stands.
//
// RUN: shard-opt %s --propagate --split-input-file --verify-diagnostics

shard.grid @g(shape = 2x4)
func.func @groups_along_no_axes(%x: tensor<8x16xf32>) {
  scf.execute_region no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0, 1], sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<8x16xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{'stablehlo.all_gather' op has replica_groups [[0, 1], [2, 3], [4, 5], [6, 7]]: expected all groups of devices along some axes of grid @g(2x4), in the order of these axes}}
    %b = "stablehlo.all_gather"(%a) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>} : (tensor<4x4xf32>) -> tensor<8x4xf32>
    scf.yield
  } {mesh.manual_axes = [0, 1]}
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @groups_in_no_order(%x: tensor<8x16xf32>) {
  scf.execute_region no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0, 1], sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<8x16xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{in the order of these axes}}
    %b = "stablehlo.all_gather"(%a) {all_gather_dim = 0 : i64, replica_groups = dense<[[1, 0, 2, 3], [5, 4, 6, 7]]> : tensor<2x4xi64>} : (tensor<4x4xf32>) -> tensor<16x4xf32>
    scf.yield
  } {mesh.manual_axes = [0, 1]}
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @one_device_is_in_no_group(%x: tensor<8x16xf32>) {
  scf.execute_region no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0, 1], sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<8x16xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{'stablehlo.all_gather' op has replica_groups [[0, 1, 2, 3]]: expected all groups}}
    %b = "stablehlo.all_gather"(%a) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<4x4xf32>) -> tensor<16x4xf32>
    scf.yield
  } {mesh.manual_axes = [0, 1]}
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @groups_along_a_free_axis(%x: tensor<8x16xf32>) {
  scf.execute_region no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0], []]>} : (tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-error @+1 {{'stablehlo.all_gather' op tells devices apart along axes [1] of grid @g(2x4), which are not manual here: manual axes are [0]}}
    %b = "stablehlo.all_gather"(%a) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>} : (tensor<4x16xf32>) -> tensor<16x16xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @the_number_of_a_device_among_all() {
  scf.execute_region no_inline {
    // expected-error @+1 {{'stablehlo.partition_id' op tells devices apart along axes [1] of grid @g(2x4), which are not manual here}}
    %b = stablehlo.partition_id : tensor<ui32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @pairs_that_are_not_alike(%x: tensor<8x16xf32>) {
  scf.execute_region no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0], []]>} : (tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-error @+1 {{'stablehlo.collective_permute' op has source_target_pairs [[0, 4], [4, 0]]: expected the same within all groups of devices along some axes of grid @g(2x4)}}
    %b = "stablehlo.collective_permute"(%a) {source_target_pairs = dense<[[0, 4], [4, 0]]> : tensor<2x2xi64>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2)
func.func @difference(%x: tensor<8xui32>) {
  scf.execute_region no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<8xui32>) -> tensor<4xui32>
    // expected-error @+1 {{'stablehlo.all_reduce' op joins elements of tensor<4xui32> in a way that no collective does: expected one sum, product, maximum, minimum or bitwise op, of numbers}}
    %b = "stablehlo.all_reduce"(%a) ({
    ^bb0(%p: tensor<ui32>, %q: tensor<ui32>):
      %s = stablehlo.subtract %p, %q : tensor<ui32>
      stablehlo.return %s : tensor<ui32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xui32>) -> tensor<4xui32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2)
func.func @a_broadcast(%x: tensor<8xi32>) {
  scf.execute_region no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<8xi32>) -> tensor<4xi32>
    // expected-error @+1 {{'stablehlo.collective_broadcast' op is not supported yet: no collective does the same}}
    %b = "stablehlo.collective_broadcast"(%a) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xi32>) -> tensor<4xi32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2)
func.func @a_shard_of_a_shard(%x: tensor<8xi32>) {
  scf.execute_region no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<8xi32>) -> tensor<4xi32>
    // expected-error @+1 {{a tensor is annotated [[0]] in a manual computation, where it is a shard along axes [0] already}}
    %b = "mesh.annotate"(%a) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<4xi32>) -> tensor<4xi32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2)
func.func @what_is_for_outside(%x: tensor<8xi32>) -> tensor<8xi32> {
  %0 = scf.execute_region -> tensor<8xi32> no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<8xi32>) -> tensor<4xi32>
    %y = "mesh.to_global"(%a) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<4xi32>) -> tensor<8xi32>
    // expected-error @+1 {{'arith.addi' op reads a 'mesh.to_global' op, which makes what is for outside of the manual computation}}
    %z = arith.addi %y, %y : tensor<8xi32>
    scf.yield %y : tensor<8xi32>
  } {mesh.manual_axes = [0]}
  return %0 : tensor<8xi32>
}

// -----

shard.grid @g(shape = 2)
func.func @what_is_from_inside(%x: tensor<8xi32>) -> tensor<4xi32> {
  %0 = scf.execute_region -> tensor<4xi32> no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<8xi32>) -> tensor<4xi32>
    // expected-error @+1 {{'scf.yield' op gives a tensor<4xi32> from the inside of a manual computation: only what a 'mesh.to_global' op makes is for outside}}
    scf.yield %a : tensor<4xi32>
  } {mesh.manual_axes = [0]}
  return %0 : tensor<4xi32>
}

// -----

shard.grid @g(shape = 2)
func.func @taken_from_inside(%x: tensor<8xi32>) {
  scf.execute_region no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<8xi32>) -> tensor<4xi32>
    // expected-error @+1 {{'mesh.to_local' op takes what is made in the manual computation: expected a tensor from outside}}
    %b = "mesh.to_local"(%a) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<4xi32>) -> tensor<2xi32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2)
func.func @itself(%x: tensor<8xi32>) {
  scf.execute_region no_inline {
    // expected-error @+1 {{function @itself calls itself: without end}}
    func.call @itself(%x) : (tensor<8xi32>) -> ()
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2)
func.func @unknown_size(%x: tensor<?xi32>) {
  scf.execute_region no_inline {
    // expected-error @+1 {{'mesh.to_local' op is on a tensor of unknown size}}
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<?xi32>) -> tensor<?xi32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @a_sum_along_a_free_axis(%x: tensor<8xi32>) -> tensor<8xi32> {
  %0 = scf.execute_region -> tensor<8xi32> no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<8xi32>) -> tensor<4xi32>
    // expected-error @+1 {{[[0], [1]] is partial along [1], which are not manual axes}}
    %y = "mesh.to_global"(%a) {manual_axes = [0], sharding = #mesh.shard<@g, [[0], [1]]>} : (tensor<4xi32>) -> tensor<8xi32>
    scf.yield %y : tensor<8xi32>
  } {mesh.manual_axes = [0]}
  return %0 : tensor<8xi32>
}

// -----

shard.grid @g(shape = 2)
func.func @a_collective_of_all(%x: tensor<8xi32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  // expected-error @+1 {{'shard.all_gather' op is of the local form: here tensors are global}}
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : tensor<8xi32> -> tensor<16xi32>
  return
}
