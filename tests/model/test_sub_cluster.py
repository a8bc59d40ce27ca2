"""Parts of grids, and plans on a grid that has stages."""

import pytest

from shard_dialect.model import Grid, Sharding, SubCluster
from shard_dialect.model.sub_cluster import refine_for
from shard_dialect.planner import plan

GRID = Grid("g", (2, 4))


def test_each_device_is_in_one_stage() -> None:
    stages = [SubCluster(f"s{at}", "g", (0, at), (2, 1)) for at in range(4)]
    assert [stage.place(GRID, GRID).fixed for stage in stages] == [{1: at} for at in range(4)]
    for rank in range(GRID.size):
        assert [part.name for part in stages if part.holds(rank, GRID)] == [f"s{rank % 4}"]


@pytest.mark.parametrize(
    ("parts", "shape", "fixed"),
    [
        ([((0, 0), (1, 4)), ((1, 0), (1, 4))], (2, 4), [{0: 0}, {0: 1}]),
        ([((0, 0), (2, 2)), ((0, 2), (2, 2))], (2, 2, 2), [{1: 0}, {1: 1}]),
        ([((0, 0), (2, 2)), ((1, 3), (1, 1))], (2, 2, 2), [{1: 0}, {0: 1, 1: 1, 2: 1}]),
        ([((0, 0), (2, 4)), ((1, 0), (1, 4))], (2, 4), [{}, {0: 1}]),
    ],
)
def test_parts_have_fixed_axes_on_a_refined_grid(
    parts: list[tuple[tuple[int, int], tuple[int, int]]],
    shape: tuple[int, ...],
    fixed: list[dict[int, int]],
) -> None:
    stages = [SubCluster(f"s{at}", "g", *each) for at, each in enumerate(parts)]
    refinement = refine_for(stages, GRID, ())
    assert refinement.fine.shape == shape
    assert [each.place(GRID, refinement.fine).fixed for each in stages] == fixed
    for stage in stages:
        own = stage.refinement(refinement)
        split = own.refined_axes((0, 1))
        devices = [rank for rank in range(GRID.size) if stage.holds(rank, GRID)]
        shards = [refinement.fine.index_along(rank, split) for rank in devices]
        assert shards == list(range(len(devices)))


@pytest.mark.parametrize(
    ("shape", "offsets", "sizes", "free"),
    [
        ((6,), (0,), (4,), 2),  # devices 0, 1 | 2, 3: along the minor factor of 2
        ((6,), (2,), (4,), 2),
        ((4,), (0,), (3,), 1),
        ((4,), (1,), (2,), 1),
        ((3, 2), (1, 0), (2, 2), 2),  # all of axis 1
        ((8,), (2,), (6,), 2),
        ((12,), (4,), (8,), 4),
    ],
)
def test_what_is_no_multiple_has_fewer_free_axes(
    shape: tuple[int, ...], offsets: tuple[int, ...], sizes: tuple[int, ...], free: int
) -> None:
    grid, part = Grid("g", shape), SubCluster("a", "g", offsets, sizes)
    fine = refine_for([part], grid, ()).fine
    place = part.place(grid, fine)
    assert fine.axes_size(place.free) == free
    assert place.fixed is None
    members = [rank for rank in range(grid.size) if part.holds(rank, grid)]
    assert [rank for rank in range(grid.size) if place.holds(rank)] == members
    for group in fine.groups(place.free):  # so a collective along them is within the part
        assert set(group) <= set(members) or set(group).isdisjoint(members)


def test_the_first_of_parts_that_cross_has_its_axes() -> None:
    grid = Grid("g", (6,))
    parts = [SubCluster("a", "g", (0,), (2,)), SubCluster("b", "g", (3,), (3,))]
    fine = refine_for(parts, grid, ()).fine
    assert fine.shape == (3, 2)
    assert parts[0].place(grid, fine).fixed == {0: 0}
    assert parts[1].place(grid, fine).free == ()


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
