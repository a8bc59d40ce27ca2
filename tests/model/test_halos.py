"""Halos: how shards with halos lie, and the steps that bring them there."""

import random
import re
from dataclasses import replace

import pytest

from shard_dialect.collectives import AllGather, CropHalo, ReshardError, UpdateHalo
from shard_dialect.model import Grid, Reduction, Sharding, ShardingError
from shard_dialect.model.grid import SubAxis
from shard_dialect.planner import halo_steps, plan
from tests.model.interpreter import holds, lay, run, spread, whole_array

GRID = Grid("g", (2, 3))
Halo = tuple[int, int]


def around(bare: Sharding, *halos: Halo, fill: Reduction = "sum") -> Sharding:
    for dim, halo in enumerate(halos):
        if any(halo):
            bare = bare.with_halo(dim, halo, fill)
    return bare


ROWS = lay((0,), ())
BOTH = lay((0,), (1,))


@pytest.mark.parametrize(
    ("sharding", "text", "shape"),
    [
        (around(ROWS, (1, 2)), "[[0], [], {halo = [[1, 2], []]}]", (5, 6)),
        (around(ROWS, (0, 0)), "[[0], []]", (2, 6)),
        (
            around(BOTH, (0, 1), (2, 0), fill="max"),
            '[[0], [1], {fill = "max", halo = [[0, 1], [2, 0]]}]',
            (3, 4),
        ),
    ],
    ids=str,
)
def test_a_shard_is_larger_by_its_halos(
    sharding: Sharding, text: str, shape: tuple[int, ...]
) -> None:
    assert (str(sharding), sharding.local_shape((4, 6), GRID)) == (text, shape)
    assert sharding.bare == lay(*sharding.split_axes)


def test_without_halos_nothing_is_filled() -> None:
    assert Sharding("g", ((0,),), fill="max") == Sharding("g", ((0,),))


def test_the_place_of_a_shard_is_that_without_halos() -> None:
    assert around(ROWS, (1, 1)).shard(3, (4, 6), GRID) == (slice(2, 4), slice(0, 6))


@pytest.mark.parametrize(
    ("source", "target", "text", "moved"),
    [
        (ROWS, around(ROWS, (1, 2)), "update_halo dim 0 axes [0] [1, 2]", 72),
        (ROWS, around(ROWS, (1, 0), fill="min"), "update_halo dim 0 axes [0] [1, 0] min", 24),
        (
            BOTH,
            around(BOTH, (1, 1), (0, 2)),
            "update_halo dim 0 axes [0] [1, 1]; update_halo dim 1 axes [1] [0, 2]",
            48,
        ),
        (
            lay((), ()),
            around(ROWS, (0, 1)),
            "all_slice dim 0 axes [0] halo [0, 1]",
            0,
        ),
        (around(ROWS, (1, 2)), around(ROWS, (0, 2)), "crop_halo dim 0 to [0, 2]", 0),
        (around(ROWS, (1, 2)), ROWS, "crop_halo dim 0 to [0, 0]", 0),
        (
            around(ROWS, (1, 0)),
            around(ROWS, (1, 1)),
            "crop_halo dim 0 to [0, 0]; update_halo dim 0 axes [0] [1, 1]",
            48,
        ),
        (
            around(ROWS, (1, 1)),
            around(ROWS, (0, 1), fill="max"),
            "crop_halo dim 0 to [0, 0]; update_halo dim 0 axes [0] [0, 1] max",
            24,
        ),
        (
            around(ROWS, (1, 1)),
            lay((), ()),
            "crop_halo dim 0 to [0, 0]; all_gather dim 0 axes [0]",
            48,
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Sharding) else "",
)
def test_a_plan_of_a_4x6_tensor_of_4_bytes(
    source: Sharding, target: Sharding, text: str, moved: int
) -> None:
    made = plan(source, target, (4, 6), 4, GRID)
    assert (str(made), made.bytes_moved) == (text, moved)


def test_sub_axes_are_those_of_a_finer_grid() -> None:
    bare = Sharding("g", ((SubAxis(0, 2, 2),),))
    made = plan(bare, bare.with_halo(0, (1, 1), "sum"), (8,), 4, Grid("g", (4,)))
    assert (str(made), str(made.grid)) == ("update_halo dim 0 axes [1] [1, 1]", "@g_2x2(2x2)")


@pytest.mark.parametrize("seed", range(60))
def test_steps_bring_each_device_what_the_sharding_says(seed: int) -> None:
    rng = random.Random(seed)
    grid = rng.choice([Grid("g", (2, 3)), Grid("g", (4,)), Grid("g", (2, 2, 1))])
    shape = (12, 24)

    def with_halos(bare: Sharding, most: int, fill: Reduction) -> Sharding:
        sizes = (min(most, size) for size in bare.local_shape(shape, grid))
        halos = [
            (rng.randint(0, size), rng.randint(0, size)) if axes else (0, 0)
            for size, axes in zip(sizes, bare.split_axes, strict=True)
        ]
        return around(bare, *halos, fill=fill)

    def drawn() -> Sharding:
        split: list[tuple[int, ...]] = [(), ()]
        for axis in rng.sample(range(grid.rank), rng.randint(0, grid.rank)):
            split[rng.randrange(2)] += (axis,)
        kinds: list[Reduction] = ["sum", "max", "min", "product"]
        return with_halos(lay(*split), 24, rng.choice(kinds))

    source, target = drawn(), drawn()
    if rng.random() < 0.5:
        target = with_halos(source.bare, 2, source.fill)
    made = plan(source, target, shape, 4, grid)
    whole = whole_array(shape)
    held, moved = run(made.steps, spread(whole, source, grid), source, shape, grid)
    assert holds(held, whole, target, grid)
    assert moved == made.bytes_moved


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (lay((), ()), replace(around(ROWS, (1, 0)), partial=(1,)), "parts of a sum have no halos"),
        (ROWS, replace(ROWS, halos=((None, 1), ())), "is not known before the program runs"),
    ],
    ids=lambda value: str(value) if isinstance(value, Sharding) else "",
)
def test_refused(source: Sharding, target: Sharding, message: str) -> None:
    with pytest.raises(ShardingError, match=re.escape(message)):
        plan(source, target, (4, 6), 4, GRID)


@pytest.mark.parametrize(
    ("step", "before", "message"),
    [
        (UpdateHalo(0, (1,), 1, 1), ROWS, "dimension 0 of sharding [[0], []] is not split along"),
        (UpdateHalo(0, (0,), 1, 1), around(ROWS, (1, 1)), "without a halo"),
        (CropHalo(0, 1, 1), around(ROWS, (0, 1)), "[1, 1] is no part of the halo of dimension 0"),
        (AllGather(0, (0,)), around(ROWS, (0, 1)), "sizes of a dimension that is not split"),
    ],
    ids=str,
)
def test_a_step_is_refused(step: UpdateHalo | CropHalo, before: Sharding, message: str) -> None:
    with pytest.raises(ShardingError, match=re.escape(message)):
        step.after(before)


def test_halo_steps_are_of_halos_only() -> None:
    with pytest.raises(ReshardError, match="differ in more than halos"):
        halo_steps(ROWS, around(BOTH, (1, 1)))


def test_a_local_exchange_has_room_for_what_it_sends() -> None:
    assert UpdateHalo(1, (0,), 1, 2).local_shape_after((4, 4), 2) == (4, 4)
    with pytest.raises(
        ShardingError, match=re.escape("halo [1, 3] of dimension 1 of [4, 4] leaves nothing")
    ):
        UpdateHalo(1, (0,), 1, 3).local_shape_after((4, 4), 2)


def test_a_group_of_one_exchanges_nothing() -> None:
    assert UpdateHalo(0, (0,), 1, 2).bytes_moved(1, (4, 5), 4) == 0
