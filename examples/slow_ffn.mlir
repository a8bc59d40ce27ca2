// A gated feed-forward layer, (silu(x @ gate) * (x @ up)) @ down, whose annotations are not good:
// docs/reading-a-report.md finds better ones by reports alone.
sdy.mesh @mesh = <["data"=2, "model"=4]>

func.func @main(
    %x: tensor<512x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %gate: tensor<256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>},
    %up: tensor<256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>},
    %down: tensor<1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>})
    -> (tensor<512x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %g = stablehlo.dot_general %x, %gate, contracting_dims = [1] x [0]
      : (tensor<512x256xf32>, tensor<256x1024xf32>) -> tensor<512x1024xf32>
  %s = stablehlo.logistic %g : tensor<512x1024xf32>
  %silu = stablehlo.multiply %g, %s : tensor<512x1024xf32>
  %u = stablehlo.dot_general %x, %up, contracting_dims = [1] x [0]
      : (tensor<512x256xf32>, tensor<256x1024xf32>) -> tensor<512x1024xf32>
  %h = stablehlo.multiply %silu, %u : tensor<512x1024xf32>
  %y = stablehlo.dot_general %h, %down, contracting_dims = [1] x [0]
      : (tensor<512x1024xf32>, tensor<1024x256xf32>) -> tensor<512x256xf32>
  return %y : tensor<512x256xf32>
}
