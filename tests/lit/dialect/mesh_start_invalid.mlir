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

// -----

shard.grid @g(shape = 2)
func.func @no_name(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op attribute 'name' must be the name of a collective, found None}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = array<i16: 0>}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @no_grid(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op attribute 'grid' must be the name of a grid, found None}}
  %0 = "mesh.start"(%x) {collective = {grid_axes = array<i16: 0>, name = "shard.all_reduce"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @another_grid(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op grid @h is not declared; the module's grids: @g}}
  %0 = "mesh.start"(%x) {collective = {grid = @h, grid_axes = array<i16: 0>, name = "shard.all_reduce"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @no_axes(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op expected a list of integers, found "x"}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = "x", name = "shard.all_reduce"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @another_axis(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op grid axis 3 in sharding [[3]] is not in grid @g of rank 1}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = array<i16: 3>, name = "shard.all_reduce"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @no_dimension(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op attribute 'gather_axis' must be an integer, found None}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = array<i16: 0>, name = "shard.all_gather"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @another_dimension(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op dimension 2 of [4] cannot be split into 1 shards}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = array<i16: 0>, gather_axis = 2 : index, name = "shard.all_gather"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @another_shape(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op gives tensor<4xf32>, but makes [8]: {gather_axis = 0 : index, grid = @g, grid_axes = array<i16: 0>, name = "shard.all_gather"}}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = array<i16: 0>, gather_axis = 0 : index, name = "shard.all_gather"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @another_root(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op has coordinate 5 in root = [5] on axis 0 of grid @g, of size 2}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = array<i16: 0>, root = array<i64: 5>, name = "shard.broadcast"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @no_root(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op has 0 coordinates in root = [], expected 1: one for each of the axes [0] of grid @g}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = array<i16: 0>, name = "shard.broadcast"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @no_permutation(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op permutation is [0, 0]: expected each of 0 to 1 once, or -1 for nobody}}
  %0 = "mesh.start"(%x) {collective = {cluster = @g, mesh_axis = [0], permutation = [0, 0], name = "mesh.collective_permute"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @permutes_nothing(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op starts no collective: {cluster = @g, name = "mesh.collective_permute"}}}
  %0 = "mesh.start"(%x) {collective = {cluster = @g, name = "mesh.collective_permute"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @shifts_along_no_axis(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op shifts along axis 1, which is none of [0]}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = array<i16: 0>, shift_axis = 1 : index, offset = 1 : i64, name = "shard.shift"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @other_split_axes(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op attribute 'split_axes' must be a list of lists of axes, found [[0]]}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, split_axes = [[0]], static_halo_sizes = array<i64: 1, 1>, name = "shard.update_halo"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @half_a_halo(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'mesh.start' op has 1 sizes of the halos of one dimension: expected two}}
  %0 = "mesh.start"(%x) {collective = {grid = @g, split_axes = #shard<axisarray[[0]]>, static_halo_sizes = array<i64: 1>, name = "shard.update_halo"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
