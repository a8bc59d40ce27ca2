"""A `tosa.matmul` whose zero points are arguments computes what TOSA's specification says."""

import itertools

import numpy as np
import pytest

import shard_dialect as sd

PROGRAM = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<2x4x{c}x{element}>, %w: tensor<2x{c}x6x{element}>,
                %p: tensor<1x{element}>, %q: tensor<1x{element}>) -> tensor<2x4x6x{result}> {{
  %s = shard.sharding @g split_axes = {split} : !shard.sharding
  %0 = shard.shard %x to %s : tensor<2x4x{c}x{element}>
  %q0 = {second}
  %1 = tosa.matmul %0, %w, %p, %q0
         : (tensor<2x4x{c}x{element}>, tensor<2x{c}x6x{element}>, tensor<1x{element}>,
            tensor<1x{element}>) -> tensor<2x4x6x{result}>
  %2 = shard.shard %1 to %s : tensor<2x4x6x{result}>
  return %2 : tensor<2x4x6x{result}>
}}
"""
TYPES = {"i8": ("i32", np.int8, np.int32), "f32": ("f32", np.float32, np.float32)}
ARGUMENT = "tosa.identity %q : (tensor<1x{0}>) -> tensor<1x{0}>"
CONSTANT = '"tosa.const"() <{{values = dense<{1}> : tensor<1x{0}>}}> : () -> tensor<1x{0}>'
ELEMENTS = np.arange(-128, 128)


def drawn(random: np.random.Generator, dtype: type, *shape: int) -> np.ndarray:
    return random.choice(ELEMENTS, shape).astype(dtype)


@pytest.mark.parametrize(
    ("element", "split", "c"),
    list(itertools.product(TYPES, ("[[0]]", "[[], [0]]", "[[], [], [0]]"), (7, 8))),
)
@pytest.mark.parametrize("second", [ARGUMENT, CONSTANT], ids=["argument", "constant"])
def test_zero_points_are_subtracted(element: str, split: str, c: int, second: str) -> None:
    result, dtype, wide = TYPES[element]
    random = np.random.default_rng(c)
    x, w = drawn(random, dtype, 2, 4, c), drawn(random, dtype, 2, c, 6)
    p, q = drawn(random, dtype, 1), drawn(random, dtype, 1)
    if second == CONSTANT:
        q[:] = 5 if element == "i8" else 0  # others must be zero, if they are known
    value = q[0] if element == "i8" else f"{q[0]:.1f}"
    text = PROGRAM.format(
        c=c, element=element, result=result, split=split, second=second.format(element, value)
    )
    expected = np.einsum("nhc,ncw->nhw", x.astype(wide) - p, w.astype(wide) - q)
    found = sd.run(sd.parse(text), x, w, p, q)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
