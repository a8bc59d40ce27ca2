// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @partial_before(%x: tensor<8xf32, #mesh.shard<@g, [[], [0]]>>) {
  // expected-error@+1 {{'mesh.exchange' op [[], [0]] and [[0]] are not partial alike}}
  %0 = "mesh.exchange"(%x) : (tensor<8xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @with_a_halo(%x: tensor<8xf32, #mesh.shard<@g, [[0]]>>) {
  // expected-error@+1 {{'mesh.exchange' op halos are not exchanged so, from [[0]] to}}
  %0 = "mesh.exchange"(%x) : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32, #mesh.shard<@g, [[0], {halo = [[1, 1]]}]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
"mesh.cluster"() {sym_name = "h", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @to_another_grid(%x: tensor<8xf32, #mesh.shard<@g, [[0]]>>) {
  // expected-error@+1 {{'mesh.exchange' op goes from grid @g to @h}}
  %0 = "mesh.exchange"(%x) : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32, #mesh.shard<@h, [[0]]>>
  return
}

// -----

func.func @on_no_grid(%x: tensor<8xf32, #mesh.shard<@other, [[0]]>>) {
  // expected-error@+1 {{'mesh.exchange' op is on grid @other, which is not declared}}
  %0 = "mesh.exchange"(%x) : (tensor<8xf32, #mesh.shard<@other, [[0]]>>) -> tensor<8xf32, #mesh.shard<@other, [[0], {offsets = [[0, 3, 8]]}]>>
  return
}
