"""What ops compute between even tensors is uneven where fewer bytes move."""

import random

import pytest

import shard_dialect as sd

ROW = 6 * 4


def padded(devices: int, rows: int, body: str, more: int = 1) -> str:
    """A tensor that is `more` rows longer in between; `body` makes %v of %p."""
    split = "{mesh.sharding = #mesh.shard<@g, [[0], []]>}"
    x, p = (f"tensor<{each}x6xf32>" for each in (rows, rows + more))
    return f"""
    shard.grid @g(shape = {devices})
    func.func @main(%x: {x} {split}) -> ({x} {split}) {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %p = stablehlo.pad %x, %z, low = [{more}, 0], high = [0, 0], interior = [0, 0]
          : ({x}, tensor<f32>) -> {p}
      {body.format(p=p, rows=rows + more)}
      %r = stablehlo.slice %v [0:{rows}, 0:6] : ({p}) -> {x}
      return %r : {x}
    }}"""


TANH = "%v = stablehlo.tanh %p : {p}"
CENTERED = """
      %s = stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [0]
          : ({p}, tensor<f32>) -> tensor<6xf32>
      %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<6xf32>) -> {p}
      %v = stablehlo.subtract %p, %b : {p}"""
PRODUCTS = """
      %d = stablehlo.dot_general %p, %p, contracting_dims = [0] x [0]
          : ({p}, {p}) -> tensor<6x6xf32>
      %e = stablehlo.dot_general %p, %d, contracting_dims = [1] x [0]
          : ({p}, tensor<6x6xf32>) -> {p}
      %v = stablehlo.tanh %e : {p}"""
TURNED = """
      %t = stablehlo.transpose %p, dims = [1, 0] : ({p}) -> tensor<6x{rows}xf32>
      %u = stablehlo.exponential %t : tensor<6x{rows}xf32>
      %v = stablehlo.transpose %u, dims = [1, 0] : (tensor<6x{rows}xf32>) -> {p}"""
REVERSED = "%v = stablehlo.reverse %p, dims = [0] : {p}"
SORTED = """
      %v = "stablehlo.sort"(%p) <{{dimension = 0 : i64}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }}) : ({p}) -> {p}"""
BODIES = {
    "tanh": TANH,
    "centered": CENTERED,
    "products": PRODUCTS,
    "turned": TURNED,
    "reversed": REVERSED,
    "sorted": SORTED,
}


@pytest.mark.parametrize("body", ["tanh", "centered", "products", "turned"])
def test_it_stays_split(body: str) -> None:
    """Shards of 17 rows where there were 16: devices send some rows, and not all that they have."""
    compiled = sd.compile(sd.parse(padded(4, 64, BODIES[body])))
    whole = 3 * 16 * ROW
    assert compiled.report.bytes_moved < whole / 2
    assert compiled.check().passed


def test_it_is_whole_where_all_devices_read_all_of_it() -> None:
    compiled = sd.compile(sd.parse(padded(4, 64, SORTED)))
    assert compiled.report.bytes_moved <= 3 * 16 * ROW


def test_it_stays_split_where_nothing_divides_it() -> None:
    """Nine rows on four devices are twelve with padding: three a device, and not all nine."""
    text = sd.to_text(sd.run_pipeline(sd.parse(padded(4, 8, TANH)), "propagate,materialize"))
    assert "#mesh.shard<@g, [[0], []]>" in next(
        line for line in text.splitlines() if "stablehlo.tanh" in line
    )


@pytest.mark.parametrize("seed", range(24))
def test_at_random_it_means_the_same(seed: int) -> None:
    draw = random.Random(seed)
    devices, body = draw.choice([2, 3, 4, 8]), BODIES[draw.choice(list(BODIES))]
    text = padded(devices, devices * draw.randint(2, 9), body, draw.randint(1, 5))
    assert sd.compile(sd.parse(text)).check(seed=seed).passed, text


def test_what_is_asked_for_at_both_ends_stays() -> None:
    """Two rows on four devices: propagation splits them along axis 0 alone, which divides them."""
    image, kernel, made = "tensor<2x4x4x4x2xf32>", "tensor<8x1x3x1x2xf32>", "tensor<2x4x4x4x8xf32>"
    split = "mesh.sharding = #mesh.shard<@g, [[0, 1], [], [], [], []]>"
    text = f"""
    shard.grid @g(shape = 2x2)
    func.func @main(%x: {image} {{{split}}}, %k: {kernel}) -> ({made} {{{split}}}) {{
      %b = "tosa.const"() {{values = dense<0.0> : tensor<8xf32>}} : () -> tensor<8xf32>
      %z = "tosa.const"() {{values = dense<0.0> : tensor<1xf32>}} : () -> tensor<1xf32>
      %r = tosa.conv3d %x, %k, %b, %z, %z {{acc_type = f32, dilation = array<i64: 1, 1, 1>,
          pad = array<i64: 0, 0, 1, 1, 0, 0>, stride = array<i64: 1, 1, 1>}}
        : ({image}, {kernel}, tensor<8xf32>, tensor<1xf32>, tensor<1xf32>) -> {made}
      return %r : {made}
    }}"""
    assert sd.communication(sd.run_pipeline(sd.parse(text), "spmd")).bytes_moved == 0
