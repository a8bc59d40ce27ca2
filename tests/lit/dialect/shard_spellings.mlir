// Both spellings of what drifted in upstream's dialect are read; the installed one is printed.
//
// RUN: shard-opt %s | filecheck %s
// RUN: shard-opt %s | shard-opt | filecheck %s

shard.grid @g(shape = 2x2)

// CHECK-LABEL: func.func @axis
func.func @axis(%x: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<4x2xf32>) {
  // CHECK: shard.reduce_scatter %arg0 on @g grid_axes = [0] scatter_{{dim|axis}} = 0
  %0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_axis = 0
      : tensor<4x4xf32> -> tensor<2x4xf32>
  // CHECK: shard.reduce_scatter %arg0 on @g grid_axes = [0] reduction = max scatter_{{dim|axis}} = 1
  %1 = shard.reduce_scatter %x on @g grid_axes = [0] reduction = <max> scatter_dim = 1
      : tensor<4x4xf32> -> tensor<4x2xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<4x2xf32>
}

// CHECK-LABEL: func.func @kind
func.func @kind(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: shard.all_reduce %arg0 on @g grid_axes = [1] reduction = min
  %0 = shard.all_reduce %x on @g grid_axes = [1] reduction = <min> : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @type
func.func @type() {
  // CHECK{LITERAL}: shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %0 = shard.sharding @g split_axes = [[0], [1]]
  // CHECK{LITERAL}: shard.sharding @g split_axes = [[], [0, 1]] : !shard.sharding
  %1 = shard.sharding @g split_axes = [[], [0, 1]]  // with a comment
  // CHECK{LITERAL}: shard.sharding @g split_axes = [[0]] : !shard.sharding
  %2 = shard.sharding @g split_axes = [[0]] : !shard.sharding
  return
}

// CHECK-LABEL: func.func @across_lines
func.func @across_lines(%x: tensor<4x4xf32>) {
  // CHECK: shard.reduce_scatter %arg0 on @g grid_axes = [0] reduction = max scatter_{{dim|axis}} = 0
  %0 = shard.reduce_scatter %x on @g
      // reduction = <min> in a comment is one
      grid_axes = [0] reduction  =  < max >
      scatter_axis=0 : tensor<4x4xf32> -> tensor<2x4xf32>
  // CHECK: shard.scatter %arg0 on @g grid_axes = [1] scatter_{{dim|axis}} = 1 root = [0]
  %1 = shard.scatter %x on @g grid_axes = [1]
      scatter_dim // the dimension
      = 1
      root = [0] : (tensor<4x4xf32>) -> tensor<4x2xf32>
  // CHECK: shard.reduce %{{.*}} on @g grid_axes = [0] reduction = bitwise_and root = [0]
  %2 = arith.fptosi %x : tensor<4x4xf32> to tensor<4x4xi8>
  %3 = shard.reduce %2 on @g grid_axes = [0]
      reduction = <bitwise_and>
      root = [0] : (tensor<4x4xi8>) -> tensor<4x4xi8>
  // CHECK{LITERAL}: shard.sharding @g split_axes = [[0], [1]] halo_sizes = [1, 2, 0, 0] : !shard.sharding
  %4 = shard.sharding@g split_axes=[[0], // rows
      [1]]
      halo_sizes = [1, 2,
                    0, 0]  // both
  // CHECK{LITERAL}: shard.sharding @g split_axes = [[0]] : !shard.sharding
  %5 = "shard.sharding"() <{grid = @g, split_axes = #shard<axisarray[[0]]>}> : () -> !shard.sharding
  // CHECK: shard.reduce_scatter %arg0 on @g grid_axes = [0] scatter_{{dim|axis}} = 0
  %6 = "shard.reduce_scatter"(%x) <{grid = @g, grid_axes = array<i16: 0>,
      scatter_axis = 0 : index}> : (tensor<4x4xf32>) -> tensor<2x4xf32>
  return
}
