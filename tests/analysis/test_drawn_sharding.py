"""Each device is drawn in the block that it holds."""

import random
import re

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.analysis.drawing import DrawnSharding
from shard_dialect.model import Grid, Sharding
from shard_dialect.testing.random_shardings import any_grid, any_sharding

GRID = Grid("g", (2, 4), ("data", "model"))


def test_blocks_and_devices() -> None:
    text = str(DrawnSharding("x", (8, 8), Sharding("g", ((0,), (1,))), GRID))
    rows = [re.findall(r"[\d.]+", line) for line in text.splitlines() if "│" in line]
    assert rows == [["0..4", "0", "1", "2", "3"], ["4..8", "4", "5", "6", "7"]]
    assert text.splitlines()[0] == 'x: 8x8 as [["data"], ["model"]] on @g of 2x4 devices'


def test_replicas_halos_partial_sums_and_uneven_edges_are_told() -> None:
    text = str(DrawnSharding("x", (6,), Sharding("g", ((1,),), halos=((1, 2),)), GRID))
    assert "halo of 1 before and 2 after" in text
    assert "uneven, every device has room for 2" in text
    assert "none of it on device 3,7" in text
    text = str(DrawnSharding("s", (), Sharding("g", (), partial=(1,)), GRID))
    assert "0-7" in text
    assert 'partial sums along ["model"]' in text


@pytest.mark.parametrize("seed", range(20))
def test_holders_cover_the_tensor(seed: int) -> None:
    rng = random.Random(seed)
    grid = any_grid(rng)
    shape = tuple(rng.choice((6, 8, 12)) for _ in range(rng.randint(1, 4)))
    sharding = any_sharding(rng, shape, grid)
    if any(None in each for each in sharding.offsets):
        return
    drawn = DrawnSharding("x", shape, sharding, grid)
    covered = np.zeros(shape, int)
    ranks: set[int] = set()
    for block, holders in drawn.holders().items():
        covered[tuple(slice(*each) for each in block)] += 1
        ranks |= set(holders)
    assert (covered == 1).all()
    assert ranks == set(range(grid.size))
    assert str(drawn)


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(sd.ShardError, match="5 dimensions: up to 4 are drawn"):
        DrawnSharding("x", (2,) * 5, Sharding("g", ((),) * 5), GRID)


def test_in_a_notebook_and_by_name() -> None:
    module = sd.parse(
        "shard.grid @g(shape = 2)\n"
        "func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})"
        " -> tensor<4xf32> {\n  %e = math.exp %x : tensor<4xf32>\n  return %e : tensor<4xf32>\n}"
    )
    for name in ("%0", "%e", "e"):
        assert sd.show(module, name).sharding == sd.show(module, "arg0").sharding
    assert "0..2" in sd.show(module, "result0")._repr_html_()
    with pytest.raises(sd.ShardError, match="there is no value 'y'"):
        sd.show(module, "y")
