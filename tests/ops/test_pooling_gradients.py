"""The gradient of a pooling whose windows have gaps between them stays split along the windows."""

import pytest

import shard_dialect as sd
from tests.extras import needs


@needs("jax")
@pytest.mark.parametrize(("size", "stride"), [(1, 2), (2, 2), (2, 4)])
def test_windows_of_one_shard(size: int, stride: int) -> None:
    image, pooled = "tensor<2x16xf32>", f"tensor<2x{16 // stride}xf32>"
    split = "{mesh.sharding = #mesh.shard<@g, [[], [0]]>}"
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: {image} {split}, %s: {pooled} {split}) -> ({image} {split}) {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = "stablehlo.select_and_scatter"(%x, %s, %z) <{{
        window_dimensions = array<i64: 1, {size}>, window_strides = array<i64: 1, {stride}>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }}, {{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }}) : ({image}, {pooled}, tensor<f32>) -> {image}
      return %0 : {image}
    }}"""
    compiled = sd.compile(sd.parse(text))
    assert compiled.report.bytes_moved == 0
    assert compiled.check().passed
