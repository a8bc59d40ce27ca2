"""Parts of grids, and plans on a grid that has stages."""

import pytest

from shard_dialect.model import Grid, Sharding, ShardingError, SubCluster, stage_axis
from shard_dialect.planner import plan

GRID = Grid("g", (2, 4))


def test_each_device_is_in_one_stage() -> None:
    stages = [SubCluster(f"s{at}", "g", (0, at), (2, 1)) for at in range(4)]
    assert stage_axis(stages, GRID) == 1
    for rank in range(GRID.size):
        assert [part.name for part in stages if part.holds(rank, GRID)] == [f"s{rank % 4}"]


@pytest.mark.parametrize(
    ("sizes", "offsets", "expected"),
    [
        ([(1, 4), (1, 4)], [(0, 0), (0, 0)], "devices in common"),
        ([(2, 2), (1, 4)], [(0, 0), (0, 0)], "devices in common"),
        ([(1, 2), (1, 1)], [(0, 0), (1, 0)], "different sizes"),
        ([(2, 2), (2, 2)], [(0, 0), (0, 2)], "not the devices with one index"),
        ([(1, 1), (1, 1)], [(0, 0), (1, 0)], "not the devices with one index"),
        ([(2, 4)], [(0, 0)], "not the devices with one index"),
    ],
)
def test_what_is_no_stage(
    sizes: list[tuple[int, int]], offsets: list[tuple[int, int]], expected: str
) -> None:
    parts = [
        SubCluster(f"s{at}", "g", offset, size)
        for at, (offset, size) in enumerate(zip(offsets, sizes, strict=True))
    ]
    with pytest.raises(ShardingError, match=expected):
        stage_axis(parts, GRID)


def test_plans_leave_the_axis_of_stages_alone() -> None:
    """Without stages a reduction is cut along the other axis first, which moves half the bytes."""
    source, target = Sharding("g", ((), ()), (1,)), Sharding("g", ((1,), ()))
    free = plan(source, target, (24, 24), 4, GRID, False)
    staged = plan(source, target, (24, 24), 4, Grid("g", (2, 4), stage_axes=(0,)), False)
    assert any(0 in step.axes for step in free.steps)
    assert all(0 not in step.axes for step in staged.steps)


def test_what_a_sharding_names_is_moved_along_the_axis_of_stages() -> None:
    source, target = Sharding("g", ((0,), ())), Sharding("g", ((), ()))
    found = plan(source, target, (24, 24), 4, Grid("g", (2, 4), stage_axes=(0,)))
    assert [str(step) for step in found.steps] == ["all_gather dim 0 axes [0]"]
