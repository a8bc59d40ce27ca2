// In the distributed form the types at the edges, and in between, are those that the axes make.
//
// RUN: shard-opt %s --partition --split-input-file --verify-diagnostics

shard.grid @g(shape = 2x2)
func.func @edge(%x: tensor<8xi32>) attributes {mesh.form = "distributed"} {
  scf.execute_region no_inline {
    // expected-error @+1 {{'mesh.to_local' op is between tensor<8xi32> and tensor<4xi32>: by its manual axes the one outside must be [[0]]}}
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<8xi32>) -> tensor<4xi32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @inside(%x: tensor<8xi32>) attributes {mesh.form = "distributed"} {
  scf.execute_region no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, []>} : (tensor<8xi32>) -> tensor<8xi32>
    // expected-error @+1 {{'mesh.local_split' op makes a tensor sharded as [[0]] in a manual computation along axes [0]}}
    %b = "mesh.local_split"(%a) {sharding = [[0]]} : (tensor<8xi32>) -> tensor<8xi32, #mesh.shard<@g, [[0]]>>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @shards_of_shards(%x: tensor<6xi32, #mesh.shard<@g, [[0, 1]]>>) attributes {mesh.form = "distributed"} {
  scf.execute_region no_inline {
    // expected-error @+1 {{'mesh.to_local' op has shards that [[1]] does not split evenly}}
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0]]>} : (tensor<6xi32, #mesh.shard<@g, [[0, 1]]>>) -> tensor<3xi32, #mesh.shard<@g, [[1]]>>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}
