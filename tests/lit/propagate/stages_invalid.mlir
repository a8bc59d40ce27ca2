// RUN: shard-opt %s --split-input-file --verify-diagnostics --propagate

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [6]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0], sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "b", cluster = @g, offsets = [3], sizes = [3]} : () -> ()
// expected-warning@+1 {{stage @b(3) has axes of @g(6) that cross those of others, so a tensor sharded as [[0]] on it is unsharded on each device}}
func.func @crossing_sizes(%x: tensor<6xf32> {mesh.sharding = #mesh.shard<@a, [[0]]>}) -> tensor<6xf32> {
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@b, [[0]]>, as_result = false} : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [6]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0], sizes = [2]} : () -> ()
// expected-error@+1 {{axis 0 of grid @g(6) is used in sub-axes of 2 and 3, which cross each other}}
func.func @crossing_in_one_grid(%x: tensor<6xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)2"]]>},
                                %y: tensor<6xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)3"]]>},
                                %z: tensor<6xf32> {mesh.sharding = #mesh.shard<@a, [[0]]>}) -> tensor<6xf32> {
  return %z : tensor<6xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [1], sizes = [2]} : () -> ()
// expected-error@+1 {{stage @a(2) has devices 1 to 2 of 4 along axis 0, no multiple of 2, so a tensor sharded as [[0], {offsets = [[0, 2, 8]]}] on it cannot be}}
func.func @no_multiple_at_offsets(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@a, [[0], {offsets = [[0, 2, 8]]}]>}) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [1], sizes = [2]} : () -> ()
// expected-warning@+1 {{stage @a(2) has devices 1 to 2 of 4 along axis 0, no multiple of 2, so a tensor sharded as [[0]] on it is unsharded on each device}}
func.func @no_multiple(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@a, [[0]]>}) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0], sizes = [1]} : () -> ()
"mesh.sub_cluster"() {sym_name = "b", cluster = @g, offsets = [1], sizes = [1]} : () -> ()
func.func @control(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@a, [[]]>},
                   %p: tensor<i1> {mesh.sharding = #mesh.shard<@b, []>}) -> tensor<8xf32> {
  // expected-error@+1 {{'stablehlo.if' op has several stages inside, and its control flow depends on a value of @b: pass it on to all devices}}
  %0 = "stablehlo.if"(%p) ({
    %1 = "mesh.collective_permute"(%x) {cluster = @b} : (tensor<8xf32>) -> tensor<8xf32>
    %2 = "mesh.collective_permute"(%1) {cluster = @a} : (tensor<8xf32>) -> tensor<8xf32>
    stablehlo.return %2 : tensor<8xf32>
  }, {
    stablehlo.return %x : tensor<8xf32>
  }) : (tensor<i1>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.cluster"() {sym_name = "h", rank = 1 : i64, dim_sizes = [4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0], sizes = [1]} : () -> ()
// expected-error@+1 {{function @two_grids has tensors on @a, a part of @g(2), and on @h: expected parts of one grid}}
func.func @two_grids(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@a, [[]]>},
                     %y: tensor<8xf32> {mesh.sharding = #mesh.shard<@h, [[0]]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0], sizes = [1]} : () -> ()
func.func private @callee(%x: tensor<8xf32>) -> tensor<8xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<8xf32>
}
func.func @calls(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@a, [[]]>}) -> tensor<8xf32> {
  // expected-error@+1 {{'func.call' op calls @callee, which has branches between blocks: in a function with stages expected one block, to be inlined}}
  %0 = func.call @callee(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "a", cluster = @g, offsets = [0], sizes = [1]} : () -> ()
func.func private @staged(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@a, [[]]>}) -> tensor<8xf32> {
  // expected-error@+1 {{'func.call' op calls @declared, which is only declared: in a function with stages expected one block, to be inlined}}
  %0 = func.call @declared(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @declared(%x: tensor<8xf32>) -> tensor<8xf32>
func.func @calls(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) -> tensor<8xf32> {
  %0 = func.call @staged(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
