"""Convolutions whose kernels are split in space, drawn at random, as in a kernel's gradient.

Also those of which XLA makes products of several dimensions: a batch, or one of the kernel alone.
"""

import random
from dataclasses import dataclass, field

import pytest

import shard_dialect as sd
from tests.extras import needs


@dataclass
class Along:
    """A spatial dimension: the sizes of the image and the kernel, and the windows."""

    image: int
    kernel: int
    stride: int = 1
    pad: tuple[int, int] = (0, 0)
    base: int = 1
    dilation: int = 1
    reverse: bool = False

    @property
    def positions(self) -> int:
        return (self.image - 1) * self.base + 1 + sum(self.pad)

    @property
    def result(self) -> int:
        return (self.positions - (self.kernel - 1) * self.dilation - 1) // self.stride + 1


def drawn(rng: random.Random) -> Along:
    size = rng.choice((2, 4, 6, 8))
    kind = rng.choice(("gradient", "gradient", "gradient", "few", "batch", "kernel", "sum"))
    if kind == "batch":
        return Along(size, size, size - 1, (0, 0), size)
    if kind == "kernel":
        return Along(1, size, 1, (size - 1, size - 1), reverse=True)
    if kind == "sum":
        return Along(size, size)
    pad = rng.randint(0, 3), rng.randint(0, 3)
    base, dilation = rng.choice((1, 1, 2)), rng.choice((1, 1, 2))
    if kind == "few":
        return Along(rng.choice((8, 12)), rng.choice((1, 2, 3)), rng.choice((1, 2)), pad, base)
    image = rng.choice((8, 12, 16, 13))
    kernel = ((image - 1) * base + 1) // dilation - rng.randint(0, 3)
    reverse = rng.random() < 0.2
    return Along(image, kernel, rng.choice((1, 1, 2)), pad, base, dilation, reverse)


@dataclass
class Convolution:
    seed: int
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.grid = self.rng.choice(((2,), (4,), (2, 2), (3,)))

    def sharding(self, shape: list[int], spatial: range) -> str:
        dims: list[list[int]] = [[] for _ in shape]
        for axis, size in enumerate(self.grid):
            dim = self.rng.choice((self.rng.choice(spatial), self.rng.randrange(len(shape))))
            if not dims[dim] and size <= shape[dim]:
                dims[dim].append(axis)
        return f"{{mesh.sharding = #mesh.shard<@g, {dims}>}}"

    def text(self) -> str:
        rng = self.rng
        dims = [drawn(rng) for _ in range(rng.choice((1, 1, 2)))]
        batch, features, kernels = (rng.choice((1, 2, 4)) for _ in range(3))
        count = len(dims)
        image = [batch, *(dim.image for dim in dims), features]
        kernel = [*(dim.kernel for dim in dims), features, kernels]
        result = [batch, *(dim.result for dim in dims), kernels]
        x, k, y = (f"tensor<{'x'.join(map(str, each))}xf32>" for each in (image, kernel, result))
        names = ", ".join(map(str, range(count)))
        listed = {
            "stride": [dim.stride for dim in dims],
            "pad": [list(dim.pad) for dim in dims],
            "lhs_dilate": [dim.base for dim in dims],
            "rhs_dilate": [dim.dilation for dim in dims],
            "reverse": [dim.reverse for dim in dims],
        }
        window = ", ".join(f"{name} = {str(each).lower()}" for name, each in listed.items())
        within = range(1, count + 1)
        head = (
            f"@main(%x: {x} {self.sharding(image, within)}, "
            f"%k: {k} {self.sharding(kernel, range(count))}) -> ({y} "
            f"{self.sharding(result, within)})"
        )
        return f"""
        shard.grid @g(shape = {"x".join(map(str, self.grid))})
        func.func {head} {{
          %0 = stablehlo.convolution(%x, %k)
              dim_numbers = [b, {names}, f]x[{names}, i, o]->[b, {names}, f],
              window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
              : ({x}, {k}) -> {y}
          return %0 : {y}
        }}"""


@needs("jax")
@pytest.mark.parametrize("seed", range(24))
def test_random_convolutions(seed: int) -> None:
    assert sd.compile(sd.parse(Convolution(seed).text())).check().passed


def test_a_kernels_gradient_moves_halos_and_the_gradient() -> None:
    """Image and output's gradient have half the rows; the kernel's gradient is 3x3, of 2x4."""
    image, output, gradient = (
        f"tensor<{text}xf32>" for text in ("16x64x64x2", "16x64x64x4", "3x3x2x4")
    )
    rows = "{mesh.sharding = #mesh.shard<@g, [[], [0], [], []]>}"
    text = f"""
    shard.grid @g(shape = 2)
    func.func @main(%x: {image} {rows}, %dy: {output} {rows}) -> {gradient} {{
      %0 = stablehlo.convolution(%x, %dy) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f],
          window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64,
          feature_group_count = 1 : i64}} : ({image}, {output}) -> {gradient}
      return %0 : {gradient}
    }}"""
    module = sd.parse(text)
    sd.run_pipeline(module, "spmd")
    row, sums = 16 * 64 * 2 * 4, 3 * 3 * 2 * 4 * 4
    assert sd.communication(module).bytes_moved == 2 * row + sums
