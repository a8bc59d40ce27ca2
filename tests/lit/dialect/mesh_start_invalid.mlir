// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @no_collective(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.start' op starts no collective: {name = "math.exp"}}}
  %0 = "mesh.start"(%x) {collective = {name = "math.exp"}} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

shard.grid @g(shape = 2)
func.func @not_done(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'mesh.start' op is not done where a 'func.return' op uses it: take its 'mesh.done'}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = array<i16: 0>, name = "shard.all_reduce"}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @not_begun(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'mesh.done' op waits for what no 'mesh.start' began}}
  %0 = "mesh.done"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
