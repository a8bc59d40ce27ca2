// RUN: shard-opt %s --split-input-file --verify-diagnostics --partition
// RUN: shard-opt %s --split-input-file --verify-diagnostics --optimize-collectives

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-error@+1 {{cannot shard a tensor as [["0:(1)2"]]: it has sub-axes}}
func.func @sub_axes(%x: tensor<4xf32, #mesh.shard<@g, [["0:(1)2"]]>>) attributes {mesh.form = "distributed"} {
  return
}
