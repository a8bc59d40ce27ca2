// Arguments that are integers become constants, which halos and offsets are read from, also through arithmetic.
//
// RUN: shard-opt %s --split-input-file --specialize="scalars={,2,-3}" --import --propagate | filecheck %s

// CHECK: func.func @main(%arg0: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, {{\[}}[0], {offsets = {{\[}}[0, 5, 8]]}]>}, %arg1: tensor<4xf32> {
shard.grid @g(shape = 2)
func.func @main(%x: tensor<8xf32>, %n: i64, %m: index, %y: tensor<4xf32>) -> tensor<8xf32> {
  %mi = arith.index_cast %m : index to i64
  %at = arith.subi %n, %mi : i64
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, %at, 8]
  %0 = shard.shard %x to %s : tensor<8xf32>
  %1 = math.exp %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// The width of a halo is a quarter of a dimension's size.
//
// CHECK: func.func @main(%arg0: tensor<8x4xf32> {{.*}}halo = {{\[}}[2, 1], []]
shard.grid @g(shape = 2)
func.func @main(%x: tensor<8x4xf32>, %n: i64, %m: index) -> tensor<8x4xf32> {
  %c0 = arith.constant 0 : index
  %four = arith.constant 4 : i64
  %rows = tensor.dim %x, %c0 : tensor<8x4xf32>
  %size = arith.index_cast %rows : index to i64
  %low = arith.divsi %size, %four : i64
  %high = arith.minsi %low, %n : i64
  %one = arith.ceildivsi %high, %n : i64
  %s = shard.sharding @g split_axes = [[0]] halo_sizes = [%low, %one]
  %0 = shard.shard %x to %s : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
