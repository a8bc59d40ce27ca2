"""Plans for time: none is slower than the fastest of an exhaustive search, and each is correct."""

from collections.abc import Iterator
from functools import cache
from heapq import heappop, heappush
from itertools import product

import pytest

from shard_dialect.collectives import Exchange, Mask
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.devices.device_model import DeviceModel, NetworkLevel
from shard_dialect.planner import Prices, plan
from shard_dialect.planner.permutation import permute
from tests.model.exhaustive import counts, may_follow, shardings, steps_from
from tests.model.interpreter import Axes, Shape

FAST = NetworkLevel("inside", 2, 100e9, 1e-6)
SLOW = NetworkLevel("between", None, 1e9, 20e-6)
RING = NetworkLevel("ring", 4, 10e9, 2e-6, ring=True)


def model(*levels: NetworkLevel) -> DeviceModel:
    return DeviceModel("test", (("f32", 1e12),), 1 << 30, 1e12, levels)


MODELS = {
    "one level": model(NetworkLevel("all", None, 10e9, 1e-6)),
    "no latency": model(NetworkLevel("all", None, 10e9, 0.0)),
    "two levels": model(FAST, SLOW),
    "ring": model(RING, SLOW),
}
CASES = [
    *product([Grid("g", (2,)), Grid("g", (2, 2)), Grid("g", (2, 3)), Grid("g", (4, 2))], [(24,)]),
    *product([Grid("g", (2, 2))], [(6, 24), (7,), (4096, 64)]),
    (Grid("g", (2, 3)), (6, 24)),
    (Grid("g", (2, 2, 2)), (24,)),
]


def uneven_dims(source: Sharding, target: Sharding, shape: Shape, grid: Grid) -> tuple[bool, ...]:
    return tuple(
        any(size % grid.axes_size(end.split_axes[dim]) for end in (source, target))
        for dim, size in enumerate(shape)
    )


def edges(
    now: Sharding, permuted: bool, masked: Axes, shape: Shape, grid: Grid, prices: Prices
) -> Iterator[tuple[Sharding, bool, int]]:
    """What each step leads to, and how long it takes.

    One permutation may be among them, and masks along the axes of `masked`: a mask along others,
    summed up again, would make 0.0 of -0.0.
    """
    for step in steps_from(now, grid):
        if isinstance(step, Mask) and not set(step.axes) <= set(masked):
            continue
        if may_follow(now, step.after(now), shape, grid):
            yield step.after(now), permuted, prices.step(step, now, shape, 4, grid)
    for other in shardings(grid, len(shape)) if not permuted else ():
        if other != now and counts(other, grid) == counts(now, grid):
            yield other, True, prices.step(permute(now, other, grid), now, shape, 4, grid)


@cache
def times(
    source: Sharding, masked: Axes, uneven: tuple[bool, ...], shape: Shape, grid: Grid, name: str
) -> dict[Sharding, tuple[int, int]]:
    """The least time, and then the fewest steps, to each sharding, by trying every step."""
    prices = Prices(MODELS[name])
    best: dict[tuple[Sharding, bool], tuple[int, int]] = {}
    queue: list[tuple[tuple[int, int], int, Sharding, bool]] = [((0, 0), 0, source, False)]
    pushed = 0
    while queue:
        cost, _, now, permuted = heappop(queue)
        if (now, permuted) in best:
            continue
        best[now, permuted] = cost
        for after, flag, more in edges(now, permuted, masked, shape, grid, prices):
            divides = all(
                odd or size % grid.axes_size(axes) == 0
                for odd, size, axes in zip(uneven, shape, after.split_axes, strict=True)
            )
            if divides and (after, flag) not in best:
                pushed += 1
                heappush(queue, ((cost[0] + more, cost[1] + 1), pushed, after, flag))
    found: dict[Sharding, tuple[int, int]] = {}
    for (sharding, _), cost in best.items():
        found[sharding] = min(cost, found.get(sharding, cost))
    return found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("grid", "shape"), CASES, ids=str)
def test_no_plan_is_slower_than_the_exhaustive_search(name: str, grid: Grid, shape: Shape) -> None:
    prices = Prices(MODELS[name])
    faster = 0
    for source, target in product(shardings(grid, len(shape)), repeat=2):
        found = plan(source, target, shape, 4, grid, False, prices=prices)
        uneven = uneven_dims(source, target, shape, grid)
        assert found.exact
        least = times(source, target.partial, uneven, shape, grid, name)[target]
        is_exchange = any(isinstance(step, Exchange) for step in found.steps)
        assert found.cost < least[0] if is_exchange else found.cost == least[0], (source, target)
        now = source
        for step in found.steps:
            now = step.after(now)
        assert now == target
        by_bytes = plan(source, target, shape, 4, grid, False)
        time = prices.steps(by_bytes.steps, source, shape, 4, grid)
        assert found.cost <= time
        faster += found.cost < time
    if name == "two levels" and grid.rank > 1:
        assert faster


def test_a_plan_for_time_sends_more_bytes_where_latency_counts() -> None:
    grid, shape = Grid("g", (4, 4)), (16, 64)
    source, target = Sharding("g", ((), (0, 1))), Sharding("g", ((), (1, 0)))
    fewest = plan(source, target, shape, 4, grid)
    fastest = plan(source, target, shape, 4, grid, prices=Prices(DeviceModel.read("tpu-v4")))
    assert str(fewest) == "collective_permute axes [0, 1] to [[], [1, 0]]"
    assert str(fastest) == "all_gather dim 1 axes [0, 1]; all_slice dim 1 axes [1, 0]"
    assert fastest.bytes_moved > fewest.bytes_moved


def test_a_search_that_is_too_long_says_so() -> None:
    grid, shape = Grid("g", (2, 2, 2)), (64, 64)
    ends = Sharding("g", ((0,), (1, 2))), Sharding("g", ((2, 1), (0,)))
    prices = Prices(MODELS["two levels"])
    short = plan(*ends, shape, 4, grid, False, limit=1, prices=prices)
    assert not short.exact
    assert short.cost >= plan(*ends, shape, 4, grid, False, prices=prices).cost
