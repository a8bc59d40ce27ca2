// RUN: not shard-opt %s --spmd --pick-device=rank=99 2>&1 | filecheck %s

// CHECK: {{^}}error: --pick-device=rank=99: grid @grid(4) has no such device: expected 0 to 3

"mesh.cluster"() {sym_name = "grid", rank = 1 : i64, dim_sizes = [4]} : () -> ()
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@grid, [[0], []]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.tanh %x : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
