// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @an_axis_is_dropped(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.local_split' op gives [[0], []] from [[0], []], but its result type says [[], []]}}
  %0 = "mesh.local_split"(%x) {sharding = [[], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @an_axis_moves(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.local_split' op splits [[0], []] along axis 0 again: sharding lists only the axes that are added}}
  %0 = "mesh.local_split"(%x) {sharding = [[], [0]]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [0]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @at_the_major_end(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.local_split' op gives [[0, 1], []] from [[0], []], but its result type says [[1, 0], []]}}
  %0 = "mesh.local_split"(%x) {sharding = [[1], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[1, 0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @the_result_lies_otherwise(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.local_split' op gives [[0, 1], []] from [[0], []], but its result type says [[0], [1]]}}
  %0 = "mesh.local_split"(%x) {sharding = [[1], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_partial_sum_out_of_nothing(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.local_split' op sharding is [[0], [], [1]]: expected the axes of each dimension, no more}}
  %0 = "mesh.local_split"(%x) {sharding = [[0], [], [1]]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @split_along_what_it_is_partial_over(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.local_split' op grid axis 0 is used twice in sharding [[0], [], [0]]}}
  %0 = "mesh.local_split"(%x) {sharding = [[0], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @open_dimensions(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.local_split' op [[0], [1], {open = [0]}] is no sharding: only annotations say open}}
  %0 = "mesh.local_split"(%x) {sharding = [[0], [1], {open = [0]}]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @halos(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.local_split' op sharding is [[0], [1], {halo = [[1, 1], []]}]: expected the axes of each dimension, no more}}
  %0 = "mesh.local_split"(%x) {sharding = [[0], [1], {halo = [[1, 1], []]}]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @more_lists_than_dimensions(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.local_split' op sharding [[0], [1], [], []] has split axes for 4 dimensions, but the tensor has 2}}
  %0 = "mesh.local_split"(%x) {sharding = [[0], [1], [], []]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_grid(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'mesh.local_split' op expected a list of lists of axes, found #mesh.shard<@g, [[0], []]>}}
  %0 = "mesh.local_split"(%x) {sharding = #mesh.shard<@g, [[0], []]>} : (tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @no_sharding(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.local_split' op gives [[0], []] from [[0], []], but its result type says [[1], []]}}
  %0 = "mesh.local_split"(%x) {} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @an_axis_that_the_grid_has_not(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'mesh.local_split' op grid axis 7 in sharding [[7], []] is not in grid @g of rank 2}}
  %0 = "mesh.local_split"(%x) {sharding = [[7], []]} : (tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[7], []]>>
  return
}
