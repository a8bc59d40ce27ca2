"""All-to-alls that follow on each other become one, which moves fewer bytes; drawn at random."""

import random

import pytest

import shard_dialect as sd
from tests.extras import needs


def resharded(seed: int) -> str:
    """A tensor whose shards are exchanged along several axes."""
    rng = random.Random(seed)
    grid = rng.choice([(2, 2), (2, 4), (2, 2, 2), (3, 2)])
    rank = rng.choice([2, 3, 4])
    type_ = f"tensor<{f'{24 if 3 in grid else 8}x' * rank}f32>"

    def sharding() -> str:
        dims: list[list[int]] = [[] for _ in range(rank)]
        for axis in rng.sample(range(len(grid)), len(grid)):
            dims[rng.randrange(rank)].append(axis)
        return f"{{mesh.sharding = #mesh.shard<@g, {dims}>}}"

    return f"""
    shard.grid @g(shape = {"x".join(map(str, grid))})
    func.func @main(%x: {type_} {sharding()}) -> ({type_} {sharding()}) {{
      %0 = stablehlo.negate %x : {type_}
      return %0 : {type_}
    }}"""


@needs("jax")
@pytest.mark.parametrize("seed", [21, 27, 29, 34, 39, 47, 55])
def test_random_exchanges(seed: int) -> None:
    assert sd.compile(sd.parse(resharded(seed))).check().passed


def test_one_exchange_along_two_axes() -> None:
    text = """
    shard.grid @g(shape = 2x4)
    func.func @main(%x: tensor<8x8x8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1], [0], []]>})
        -> (tensor<8x8x8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], [], [1]]>}) {
      return %x : tensor<8x8x8x8xf32>
    }"""
    module = sd.parse(text)
    sd.run_pipeline(module, "spmd")
    shard = 8**4 * 4 // 8
    assert sd.communication(module).bytes_moved == shard * 7 // 8
    assert sd.to_text(module).count("shard.all_to_all") == 1
