// An op without results may have a rule: it takes shards. So may one without operands.
//
// RUN: shard-opt %s --allow-unregistered-dialect --spmd | filecheck %s

"mesh.cluster"() {sym_name = "mesh0", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @main(%arg0: tensor<4xf32>
// CHECK-NEXT: "use"(%arg0) : (tensor<4xf32>) -> ()
func.func @main(%arg0: tensor<8xf32, #mesh.shard<[[0]]>>) -> () attributes {mesh_cluster = @mesh0} {
  "use"(%arg0) {mesh.sharding_rule = "([i])->()"} : (tensor<8xf32, #mesh.shard<[[0]]>>) -> ()
  return
}

// CHECK-LABEL: func.func @made(%arg0: tensor<4x4xf32>
// CHECK-NEXT: %[[EXP:.*]] = math.exp %arg0 : tensor<4x4xf32>
// CHECK-NEXT: "use"(%[[EXP]]) : (tensor<4x4xf32>) -> ()
// CHECK-NEXT: %[[WHOLE:.*]] = shard.all_gather %[[EXP]] on @mesh0 grid_axes = [0] gather_axis = 0
// CHECK-NEXT: "use_whole"(%[[WHOLE]]) : (tensor<8x4xf32>) -> ()
// CHECK-NEXT: %[[MADE:.*]] = "make"() : () -> tensor<4x4xf32>
// CHECK-NEXT: "nothing"() : () -> ()
// CHECK-NEXT: return %[[MADE]] : tensor<4x4xf32>
func.func @made(%x: tensor<8x4xf32, #mesh.shard<[[0]]>>)
    -> (tensor<8x4xf32> {mesh.sharding = #mesh.shard<[[0]]>}) attributes {mesh_cluster = @mesh0} {
  %0 = math.exp %x : tensor<8x4xf32, #mesh.shard<[[0]]>>
  "use"(%0) {mesh.sharding_rule = "([i, j])->()"} : (tensor<8x4xf32, #mesh.shard<[[0]]>>) -> ()
  "use_whole"(%0) {mesh.sharding_rule = "([i, j])->() need_replication={i, j}"}
    : (tensor<8x4xf32, #mesh.shard<[[0]]>>) -> ()
  %1 = "make"() {mesh.sharding_rule = "()->([i, j])"} : () -> tensor<8x4xf32>
  "nothing"() {mesh.sharding_rule = "()->()"} : () -> ()
  return %1 : tensor<8x4xf32>
}
