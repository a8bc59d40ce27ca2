"""Plans between shards that begin at offsets, against an interpreter that knows no plans."""

import random
import re

import pytest

from shard_dialect.collectives import AllSlice, AllToAll, Exchange, ReduceScatter, ReshardError
from shard_dialect.model import Annotation, Grid, Sharding, ShardingError
from shard_dialect.planner import plan
from tests.model.interpreter import Axes, holds, lay, run, spread, whole_array

GRID = Grid("g", (4,))
AT = Sharding("g", ((0,),), offsets=((0, 2, 5, 9, 14),))
APART = Sharding("g", ((0,),), offsets=((0, 5, 5, 14, 14),))


@pytest.mark.parametrize(
    ("source", "target", "text", "moved"),
    [
        (AT, AT, "nothing", 0),
        (lay((0,)), AT, f"exchange axes [0] to {AT}", 12),
        (AT, lay((0,)), "exchange axes [0] to [[0]]", 12),
        (AT, lay(()), "all_gather dim 0 axes [0]", 60),
        (lay(()), AT, "all_slice dim 0 axes [0] at [0, 2, 5, 9, 14]", 0),
        (
            lay((), partial=(0,)),
            AT,
            f"reduce_scatter dim 0 axes [0] sum; exchange axes [0] to {AT}",
            60,
        ),
        (
            AT,
            APART,
            f"exchange axes [0] to {APART}",
            20,
        ),
    ],
    ids=str,
)
def test_a_plan_of_14_elements_of_4_bytes(
    source: Sharding, target: Sharding, text: str, moved: int
) -> None:
    found = plan(source, target, (14,), 4, GRID)
    assert (str(found), found.bytes_moved) == (text, moved)


def test_a_dimension_that_keeps_its_offsets_does_not_move() -> None:
    grid = Grid("g", (4, 2))
    at = ((0, 2, 5, 9, 14), ())
    source = Sharding("g", ((0,), ()), (1,), offsets=at)
    found = plan(source, Sharding("g", ((0,), (1,)), offsets=at), (14, 6), 4, grid)
    assert str(found) == "reduce_scatter dim 1 axes [1] sum"


@pytest.mark.parametrize("seed", range(200))
def test_steps_bring_each_device_its_shard(seed: int) -> None:
    rng = random.Random(seed)
    grid = rng.choice([Grid("g", shape) for shape in ((2, 3), (4,), (2, 2, 2), (1, 2), (2, 1, 3))])
    shape = (rng.randint(1, 13), rng.randint(1, 13))

    def drawn() -> Sharding:
        split: list[Axes] = [(), ()]
        axes = rng.sample(range(grid.rank), grid.rank)
        for axis in axes[: rng.randint(0, grid.rank)]:
            split[rng.randrange(2)] += (axis,)
        left = [axis for axis in axes if axis not in split[0] + split[1]]
        offsets = []
        for size, along in zip(shape, split, strict=True):
            count = grid.axes_size(along)
            inner = sorted(rng.randint(0, size) for _ in range(count - 1))
            offsets.append((0, *inner, size) if along and rng.random() < 0.7 else ())
        partial = tuple(left) if rng.random() < 0.3 else ()
        is_even = lay(*split).uneven_dim(shape, grid) is None
        if is_even and rng.random() < 0.4:
            most = [min(2, size) for size in lay(*split).local_shape(shape, grid)]
            halos = [
                (rng.randint(0, size), rng.randint(0, size)) if along else ()
                for size, along in zip(most, split, strict=True)
            ]
            return Sharding("g", tuple(split), halos=tuple(halos))
        return Sharding("g", tuple(split), partial, offsets=tuple(offsets))

    source, target = drawn(), drawn()
    if rng.random() < 0.4 and not source.partial:  # the same axes
        target = (
            Sharding("g", source.split_axes, offsets=target.offsets)
            if _fits(source, target, grid)
            else target
        )
    if target.partial and not source.partial:
        target = target.with_partial(())
    found = plan(source, target, shape, 4, grid)
    whole = whole_array(shape)
    held, moved = run(found.steps, spread(whole, source, grid), source, shape, grid)
    assert holds(held, whole, target, grid)
    assert moved == found.bytes_moved


def _fits(source: Sharding, target: Sharding, grid: Grid) -> bool:
    return all(
        not at or (len(at) == grid.axes_size(axes) + 1 and axes)
        for axes, at in zip(source.split_axes, target.offsets, strict=False)
    )


def test_an_exchange_is_between_the_shardings_that_it_was_planned_for() -> None:
    step = Exchange.between(AT, lay((0,)), (14,), GRID)
    with pytest.raises(ReshardError, match=re.escape("exchanges shards of [[0], {offsets")):
        step.after(lay(()))
    with pytest.raises(ReshardError, match="not partial alike"):
        Exchange.between(AT, lay((), partial=(0,)), (14,), GRID)


@pytest.mark.parametrize(
    "step",
    [AllToAll(0, 1, (0,)), AllToAll(1, 0, (1,)), ReduceScatter(0, (2,)), AllSlice(0, (3,))],
    ids=str,
)
def test_a_dimension_at_offsets_is_not_split_further(step: AllToAll) -> None:
    given = Sharding("g", ((0,), (1,)), (2,), offsets=((0, 3, 8), ()))
    with pytest.raises(ReshardError, match="has offsets: it is cut no further"):
        step.after(given)


def test_a_dimension_at_offsets_is_closed() -> None:
    with pytest.raises(ShardingError, match=re.escape("dimension 0 is open in [[0], {offsets =")):
        Annotation(AT, open=(0,)).check(GRID, 1)


def test_halos_of_one_value_are_as_large_as_the_largest() -> None:
    low, high = (Annotation(lay((0,)).with_halo(0, halo, "sum")) for halo in ((1, 0), (0, 2)))
    assert str(low.meet(high)) == "[[0], {halo = [[1, 2]]}]"
    assert low.meet(Annotation(lay((0,)))) == low
    assert low.meet(Annotation(lay((0,)).with_halo(0, (1, 0), "max"))) is None
    assert low.meet(Annotation(Sharding("g", ((0,),), offsets=((0, 1, 2),)))) is None
