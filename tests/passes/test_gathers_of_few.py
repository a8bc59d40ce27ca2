"""A gather of a dimension that fewer than half of the devices have a part of moves no padding."""

import pytest

import shard_dialect as sd
from tests.extras import missing

TEXT = """
shard.grid @g(shape = {devices})
func.func @main(%x: tensor<6x{size}x{element}> {{mesh.sharding = #mesh.shard<@g, [[], [0]]>}})
    -> (tensor<6x{size}x{element}> {{mesh.sharding = #mesh.shard<@g, [[], []]>}}) {{
  return %x : tensor<6x{size}x{element}>
}}
"""


@pytest.mark.parametrize("devices", [3, 4, 8])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("element", ["f32", "bf16", "i32", "ui8", "i1", "complex<f32>"])
def test_the_numbers(size: int, devices: int, element: str) -> None:
    module = sd.parse(TEXT.format(size=size, devices=devices, element=element))
    compiled = sd.compile(module)
    assert compiled.check().passed
    assert sd.prove(module, sd.run_pipeline(sd.parse(str(module)), "spmd")).answer == "proven"
    if not missing(["jax"]) and devices == 4:
        assert sd.compile(module, "xla").check().passed


@pytest.mark.parametrize(
    ("size", "most"),
    [(1, 2 * 7 * 24 // 8), (2, 2 * 7 * 48 // 8), (3, 126), (4, 7 * 24), (5, 7 * 24)],
)
def test_the_bytes(size: int, most: int) -> None:
    module = sd.parse(TEXT.format(size=size, devices=8, element="f32"))
    assert sd.communication(sd.run_pipeline(module, "spmd")).bytes_moved == most
