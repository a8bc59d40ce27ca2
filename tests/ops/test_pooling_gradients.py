"""The gradient of a pooling stays split along its windows, whether they overlap or have gaps."""

import random

import pytest

import shard_dialect as sd
from tests.extras import needs

ROW = 2 * 8 * 4
"""The bytes of a row of the image that is padded."""


def scattered(image: str, pooled: str, sizes: list[int], strides: list[int]) -> str:
    return f"""
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %r = "stablehlo.select_and_scatter"(%p, %s, %z) <{{
        window_dimensions = array<i64: {str(sizes)[1:-1]}>,
        window_strides = array<i64: {str(strides)[1:-1]}>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }}, {{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }}) : ({image}, {pooled}, tensor<f32>) -> {image}"""


def alone(grid: str, split: str, image: str, pooled: str, body: str) -> str:
    return f"""
    shard.grid @g(shape = {grid})
    func.func @main(%p: {image} {split}, %s: {pooled}) -> ({image} {split}) {{{body}
      return %r : {image}
    }}"""


@needs("jax")
@pytest.mark.parametrize(("size", "stride"), [(1, 2), (2, 2), (2, 4)])
def test_windows_of_one_shard(size: int, stride: int) -> None:
    image, pooled = "tensor<2x16xf32>", f"tensor<2x{16 // stride}xf32>"
    split = "{mesh.sharding = #mesh.shard<@g, [[], [0]]>}"
    text = alone("4", split, image, pooled, scattered(image, pooled, [1, size], [1, stride]))
    compiled = sd.compile(sd.parse(text.replace(f"%s: {pooled}", f"%s: {pooled} {split}")))
    assert compiled.report.bytes_moved == 0
    assert compiled.check().passed


@needs("jax")
@pytest.mark.parametrize("seed", range(40))
def test_windows_at_random(seed: int) -> None:
    draw = random.Random(seed)
    windows = [(draw.randint(1, 5), draw.randint(1, 4), draw.randint(1, 9)) for _ in range(2)]
    sizes = [
        (count - 1) * stride + size + draw.randrange(stride) for size, stride, count in windows
    ]
    image = f"tensor<{'x'.join(map(str, sizes))}xf32>"
    pooled = f"tensor<{'x'.join(str(count) for _, _, count in windows)}xf32>"
    axes = draw.choice(["[[0], []]", "[[], [0]]", "[[0], [1]]"])
    grid = f"{draw.choice([2, 3, 4, 8])}" + (f"x{draw.choice([2, 3])}" if "1" in axes else "")
    split = f"{{mesh.sharding = #mesh.shard<@g, {axes}>}}"
    body = scattered(image, pooled, [each[0] for each in windows], [each[1] for each in windows])
    text = alone(grid, split, image, pooled, body)
    assert sd.compile(sd.parse(text)).check(seed=seed).passed, text


@needs("jax")
@pytest.mark.parametrize("rows", [56, 64, 224])
def test_what_is_padded_and_sliced_again_stays_split(rows: int) -> None:
    """As in the gradient of a pooling of 3 by 2 of `jax.lax`, whose image becomes one row longer.

    The shards of what is padded are a row longer, so the last device has three rows less. A device
    sends three rows of the image, four of the padded one, two of the source, three of the result.
    """
    split = "{mesh.sharding = #mesh.shard<@g, [[0], [], []]>}"
    image, padded = (f"tensor<{each}x2x8xf32>" for each in (rows, rows + 1))
    pooled = f"tensor<{rows // 2}x2x8xf32>"
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: {image} {split}, %s: {pooled} {split}) -> ({image} {split}) {{
      %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %p = stablehlo.pad %x, %least, low = [0, 0, 0], high = [1, 0, 0], interior = [0, 0, 0]
          : ({image}, tensor<f32>) -> {padded}{scattered(padded, pooled, [3, 1, 1], [2, 1, 1])}
      %o = stablehlo.slice %r [0:{rows}, 0:2, 0:8] : ({padded}) -> {image}
      return %o : {image}
    }}"""
    compiled = sd.compile(sd.parse(text))
    assert compiled.report.bytes_moved == (3 + 4 + 2 + 3) * ROW
    assert compiled.check().passed
