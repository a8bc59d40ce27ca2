"""Shardings on several grids, said on common grids, have the same shards on each device."""

from itertools import permutations, product

import pytest

from shard_dialect.model import Grid, Sharding, SubAxis
from shard_dialect.model.grid import Axes
from shard_dialect.model.grid_refinement import Refinement, common_refinements

SHAPES = ((6,), (2, 3), (3, 2), (1, 6), (6, 1), (2, 1, 3))
SIX = [Grid("x".join(map(str, shape)), shape) for shape in SHAPES]
ORDERS = [Grid(f"o{at}", (2, 2), device_ids=ids) for at, ids in enumerate(permutations(range(4)))]
TURNED = tuple(a + 2 * b + 6 * c for a, b, c in product(range(2), range(3), range(4)))
LARGE = [
    Grid("a", (4, 3, 2)),
    Grid("b", (2, 12)),
    Grid("c", (24,)),
    Grid("d", (3, 8)),
    Grid("e", (2, 3, 4), device_ids=TURNED),
]


def held(grid: Grid, axes: Axes) -> list[int]:
    """The shard that each device has of a dimension split along `axes`."""
    return [grid.index_along(rank, axes) for rank in range(grid.size)]


def fine_of(grid: Grid, refinement: Refinement | None) -> Grid:
    return refinement.fine if refinement else grid


def every_use(grid: Grid) -> list[Axes]:
    numbers = range(grid.rank)
    return [each for count in range(grid.rank + 1) for each in permutations(numbers, count)]


@pytest.mark.parametrize("grids", [SIX, ORDERS, LARGE], ids=["six", "orders", "large"])
def test_each_device_has_the_same_shard_on_the_common_grid(grids: list[Grid]) -> None:
    for first, second in product(grids, repeat=2):
        for axes in product(every_use(first), every_use(second)):
            uses = list(zip((first, second), axes, strict=True))
            found = common_refinements(uses)
            for grid, used in uses:
                refinement = found[grid, used]
                fine = fine_of(grid, refinement)
                refined = refinement.refined_axes(used) if refinement else used
                assert fine.axes_size(refined) == grid.axes_size(used)
                assert held(fine, refined) == held(grid, used), f"{grid} {used}"


def test_sub_axes_that_cross_are_on_grids_of_their_own() -> None:
    grid = Grid("g", (6,))
    uses = [(grid, (SubAxis(0, 1, 2),)), (grid, (SubAxis(0, 1, 3),)), (grid, (0,))]
    found = common_refinements(uses)
    refinements = [refinement for refinement in found.values() if refinement]
    assert [each.fine.shape for each in refinements] == [(2, 3), (3, 2), (2, 3)]
    for use, refinement in zip(uses, refinements, strict=True):
        assert held(refinement.fine, refinement.refined_axes(use[1])) == held(*use)


@pytest.mark.parametrize(
    ("grids", "shapes"),
    [
        ([Grid("a", (4,)), Grid("b", (2, 2))], {(2, 2)}),
        ([Grid("a", (2, 4)), Grid("b", (4, 2))], {(2, 2, 2)}),
        ([Grid("a", (2, 2)), Grid("b", (2, 2), device_ids=(0, 2, 1, 3))], {(2, 2)}),
        ([Grid("a", (2, 2), device_ids=(0, 1, 3, 2))], {(2, 2)}),
        ([Grid("a", (2, 3)), Grid("b", (3, 2))], {(2, 3), (3, 2)}),
    ],
)
def test_common_grids_are_as_few_as_possible(grids: list[Grid], shapes: set[object]) -> None:
    found = common_refinements([(grid, (axis,)) for grid in grids for axis in range(grid.rank)])
    fine = {fine_of(grid, each) for (grid, _), each in found.items()}
    assert {each.shape for each in fine} == shapes
    assert len(fine) == len(shapes)


def test_a_sharding_that_no_axis_splits_is_on_any_grid() -> None:
    a, b = Grid("a", (2, 3)), Grid("b", (3, 2))
    found = common_refinements([(a, (0,)), (b, ())])
    refinement = found[b, ()]
    assert found[a, (0,)] is None
    assert refinement is not None
    assert refinement.refined(Sharding("b", ((), ()))) == Sharding("a", ((), ()))


def test_a_name_that_another_grid_has_is_not_taken() -> None:
    a, b, other = Grid("a", (2, 4)), Grid("b", (4, 2)), Grid("a_2x2x2", (8,))
    found = common_refinements([(a, (0,)), (b, (0,)), (other, (0,))])
    assert {each.fine.name for each in found.values() if each} == {"a_2x2x2_2"}


def test_grids_of_different_sizes_have_nothing_in_common() -> None:
    four, eight = Grid("four", (4,)), Grid("eight", (2, 4))
    found = common_refinements([(four, (0,)), (eight, (1,)), (eight, ())])
    assert list(found.values()) == [None, None, None]
