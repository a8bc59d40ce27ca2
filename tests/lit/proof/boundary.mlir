// A program for devices that says nothing of global tensors: what it is given is said beside it.
//
// RUN: sed "s/tensor<2x4xf32>/tensor<4x4xf32>/g; /shard.grid/d" %s > %t.global
// RUN: shard-prove %t.global %s --boundary=x=[[0]] --boundary=result0=[[0]] 2>&1 | filecheck %s
// RUN: not shard-prove %t.global %s --boundary=x=[[0]] 2>&1 | filecheck %s --check-prefix=SHARD
// RUN: not shard-prove %t.global %s --boundary=y=[[0]] 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not shard-prove %t.global %s --boundary=x=[[1]] 2>&1 | filecheck %s --check-prefix=AXIS
// RUN: not shard-prove %t.global %s --boundary=x 2>&1 | filecheck %s --check-prefix=READ
// RUN: not shard-prove %t.global %t.global --boundary=x=[[0]] 2>&1 | filecheck %s --check-prefix=GRID
// RUN: sed "s/(%x: tensor<4x4xf32>, /(/; s/%x, %w/%w, %w/" %t.global > %t.fewer
// RUN: not shard-prove %t.fewer %s --boundary=x=[[0]] 2>&1 | filecheck %s --check-prefix=COUNT
// RUN: touch %t.py
// RUN: not shard-prove %t.global %t.py --boundary=x=[[0]] 2>&1 | filecheck %s --check-prefix=PYTHON

// CHECK: note: proven: every device computes the unsharded program, for all inputs
// SHARD: boundary.mlir:{{[0-9]+}}:1: error: 'func.func' op mesh.result is tensor<4x4xf32>, whose shard is tensor<4x4xf32>, not tensor<2x4xf32>
// NAME: error: --boundary=y={{\[\[}}0]]: nothing is called 'y'; there are x, w, result0
// AXIS: error: --boundary=x={{\[\[}}1]]: grid axis 1 in sharding {{\[\[}}1], []] is not in grid @g of rank 1
// READ: error: --boundary=x: cannot read 'x': write NAME={{\[\[}}], [0]], with a list of grid axes for each dimension
// GRID: error: --boundary: LOCAL declares 0 grids, and what it is given is split along the axes of one: declare that alone, as in shard.grid @g(shape = 2x4)
// COUNT: error: --boundary: LOCAL has 2 arguments and 1 results, and GLOBAL 1 and 1
// PYTHON: error: --boundary is for a .mlir file: a program in Python says it

// The grid is that of the devices.
shard.grid @g(shape = 2)

func.func @main(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
