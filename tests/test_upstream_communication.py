"""What upstream's passes partitioned is counted as what ours partition."""

import pytest

import shard_dialect as sd

PRODUCT = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %whole = shard.sharding @g split_axes = [[]] : !shard.sharding
  %x0 = shard.shard %x to %columns : tensor<4x8xf32>
  %x1 = shard.shard %x0 to %columns annotate_for_users : tensor<4x8xf32>
  %w0 = shard.shard %w to %rows : tensor<8x6xf32>
  %w1 = shard.shard %w0 to %rows annotate_for_users : tensor<8x6xf32>
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = linalg.matmul ins(%x1, %w1 : tensor<4x8xf32>, tensor<8x6xf32>)
         outs(%z : tensor<4x6xf32>) -> tensor<4x6xf32>
  %y0 = shard.shard %y to %whole : tensor<4x6xf32>
  %y1 = shard.shard %y0 to %whole annotate_for_users : tensor<4x6xf32>
  return %y1 : tensor<4x6xf32>
}
"""

RESHARD = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {{
  %from = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %to = shard.sharding @g split_axes = {} : !shard.sharding
  %0 = shard.shard %x to %from : tensor<8x16xf32>
  %1 = shard.shard %0 to %to annotate_for_users : tensor<8x16xf32>
  %2 = tosa.sigmoid %1 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = shard.shard %2 to %to : tensor<8x16xf32>
  %4 = shard.shard %3 to %to annotate_for_users : tensor<8x16xf32>
  return %4 : tensor<8x16xf32>
}}
"""


def partitioned(text: str) -> sd.Report:
    module = sd.parse(text)
    sd.run_pipeline(module, "func.func(sharding-propagation,shard-partition)")
    before = str(module)
    assert "mesh." not in before
    report = sd.communication(module)
    assert str(module) == before
    return report


@pytest.mark.parametrize("text", [PRODUCT, *map(RESHARD.format, ("[[]]", "[[], [0]]"))])
def test_it_is_counted(text: str) -> None:
    report = partitioned(text)
    assert report.bytes_moved > 0
    assert str(report) == str(sd.communication(sd.parse(text)))


def test_collectives_beside_annotations_are_refused() -> None:
    both = PRODUCT.replace(
        "  return %y1",
        "  %s = shard.all_reduce %y1 on @g grid_axes = [0] : tensor<4x6xf32> -> tensor<4x6xf32>\n"
        "  return %s",
    )
    with pytest.raises(sd.ShardError, match=r"'shard[.]all_reduce' op is of the local form"):
        sd.communication(sd.parse(both))
