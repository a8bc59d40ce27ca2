"""`select_and_scatter` beside plain numpy: windows that overlap or not, padding, equal elements.

The operand holds few different numbers, so that most windows have several best elements.
"""

import itertools
import random
from dataclasses import dataclass

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.abi.tensor_types import Array
from tests.runtime.alone import run_on

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Windows:
    shape: Shape
    sizes: Shape
    strides: Shape
    padding: tuple[tuple[int, int], ...]

    @property
    def counts(self) -> Shape:
        dims = zip(self.shape, self.sizes, self.strides, self.padding, strict=True)
        return tuple((size + low + high - w) // step + 1 for size, w, step, (low, high) in dims)

    def text(self, direction: str, prepared: bool) -> str:
        operand, source = ("x".join(map(str, each)) for each in (self.shape, self.counts))
        pairs = ", ".join(f"[{low}, {high}]" for low, high in self.padding)
        x = "%t = stablehlo.negate %x" if prepared else "%t = stablehlo.add %x, %x"
        return f"""
        func.func @main(%x: tensor<{operand}xf32>, %y: tensor<{source}xf32>)
            -> tensor<{operand}xf32> {{
          {x} : tensor<{operand}xf32>
          %c = stablehlo.constant dense<0.0> : tensor<f32>
          %r = "stablehlo.select_and_scatter"(%t, %y, %c) <{{
            padding = dense<[{pairs}]> : tensor<{len(self.shape)}x2xi64>,
            window_dimensions = array<i64: {", ".join(map(str, self.sizes))}>,
            window_strides = array<i64: {", ".join(map(str, self.strides))}>}}> ({{
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %p = stablehlo.compare {direction}, %a, %b, FLOAT
              : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          }}, {{
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %q = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %q : tensor<f32>
          }}) : (tensor<{operand}xf32>, tensor<{source}xf32>, tensor<f32>) -> tensor<{operand}xf32>
          return %r : tensor<{operand}xf32>
        }}"""

    def scattered(self, x: Array, y: Array, direction: str) -> Array:
        keeps = {"GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal}[direction]
        result = np.zeros(self.shape, np.float32)
        for place in np.ndindex(*self.counts):
            begins = [
                at * step - low
                for at, step, (low, _) in zip(place, self.strides, self.padding, strict=True)
            ]
            best = None
            for offset in itertools.product(*map(range, self.sizes)):
                here = tuple(b + o for b, o in zip(begins, offset, strict=True))
                if not all(0 <= at < size for at, size in zip(here, self.shape, strict=True)):
                    continue
                if best is None or not keeps(x[best], x[here]):
                    best = here
            if best is not None:
                result[best] += y[place]
        return result


def drawn(seed: int) -> Windows:
    """Half of them without padding and overlap, which upstream converts as well."""
    draw = random.Random(seed)
    rank = draw.randint(1, 4)
    shape = [draw.randint(2, 7 if rank < 3 else 4) for _ in range(rank)]
    sizes = [draw.randint(1, min(3, size)) for size in shape]
    if seed % 2:
        strides, padding = [w + draw.randint(0, 1) for w in sizes], [(0, 0)] * rank
    else:
        strides = [draw.randint(1, 3) for _ in sizes]
        padding = [(draw.randint(0, w - 1), draw.randint(0, w - 1)) for w in sizes]
    return Windows(tuple(shape), tuple(sizes), tuple(strides), tuple(padding))


@pytest.mark.parametrize("seed", range(24))
def test_the_element_that_select_keeps_gets_what_is_scattered(seed: int) -> None:
    windows, direction = drawn(seed), ("GE", "GT", "LE")[seed % 3]
    numbers = np.random.default_rng(seed)
    x = numbers.integers(0, 3, windows.shape).astype(np.float32)
    y = numbers.integers(0, 9, windows.counts).astype(np.float32)
    _, (found,) = run_on(windows.text(direction, prepared=seed % 4 > 1), [x, y])
    selected = -x if seed % 4 > 1 else 2 * x
    np.testing.assert_array_equal(found, windows.scattered(selected, y, direction))


def ending_in_padding(draw: random.Random, devices: int) -> tuple[int, int, int, int]:
    """Size, window, stride and padding behind, of windows of which each device has as many."""
    window = draw.randint(2, 4)
    stride, missing = window + draw.randint(0, 2), draw.randint(1, window - 1)
    size = (2 * devices - 1) * stride + window - missing
    return size, window, stride, missing


@pytest.mark.parametrize("seed", range(12))
def test_windows_that_end_in_padding_stay_split(seed: int) -> None:
    """Ties, and comparisons with what is no number, go the same way in every order."""
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    grid = draw.choice(((2,), (3,), (4,), (2, 2)))
    dims = [ending_in_padding(draw, n) for n in grid] + [(4, 2, 2, 0)] * (2 - len(grid))
    shape, sizes, strides, highs = zip(*dims, strict=True)
    windows = Windows(shape, sizes, strides, tuple((0, high) for high in highs))
    direction = ("GE", "GT", "LE")[seed % 3]
    split = ", ".join(str([axis]) for axis in range(len(grid)))
    sharded = f"tensor<{shape[0]}x{shape[1]}xf32> {{mesh.sharding = #mesh.shard<@g, [{split}]>}}"
    whole = f"tensor<{shape[0]}x{shape[1]}xf32>"
    text = windows.text(direction, prepared=True)
    text = text.replace(f"%x: {whole}", f"%x: {sharded}", 1).replace(
        f"-> {whole}", f"-> ({sharded})", 1
    )
    text = f"shard.grid @g(shape = {'x'.join(map(str, grid))})\n{text}"
    x = numbers.integers(0, 3, shape).astype(np.float32)
    x[numbers.random(shape) < 0.2] = np.nan
    y = numbers.integers(0, 9, windows.counts).astype(np.float32)
    assert "all_gather" not in sd.to_text(sd.run_pipeline(sd.parse(text), "spmd"))
    found = sd.compile(sd.parse(text))(x, y)
    np.testing.assert_array_equal(found, windows.scattered(-x, y, direction))
