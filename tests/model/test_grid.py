"""Ranks, coordinates and groups of a grid of devices."""

import re
from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_dialect.errors import ShardError
from shard_dialect.model import Grid, SubAxis

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
GRIDS = SIZES.map(lambda shape: Grid("g", shape))


@st.composite
def grids_with_axes(draw: st.DrawFn) -> tuple[Grid, tuple[int, ...]]:
    grid = draw(GRIDS)
    order = draw(st.permutations(range(grid.rank)))
    return grid, tuple(order[: draw(st.integers(0, grid.rank))])


@given(GRIDS)
def test_rank_at_undoes_coordinates(grid: Grid) -> None:
    ranks = range(grid.size)
    assert [grid.rank_at(grid.coordinates(rank)) for rank in ranks] == list(ranks)


@given(GRIDS)
def test_coordinates_lie_within_the_shape(grid: Grid) -> None:
    for rank in range(grid.size):
        at = grid.coordinates(rank)
        assert all(0 <= c < size for c, size in zip(at, grid.shape, strict=True) if size)


def test_the_last_axis_counts_fastest() -> None:
    grid = Grid("g", (2, 3))
    assert [grid.coordinates(rank) for rank in range(6)] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    ]


def test_rank_is_the_number_of_axes() -> None:
    assert Grid("g", (2, 3, 4)).rank == 3


def test_size_is_the_number_of_devices() -> None:
    assert Grid("g", (2, 3, 4)).size == 24


@pytest.mark.parametrize(("axes", "size"), [((), 1), ((1,), 3), ((0, 2), 8), ((2, 1, 0), 24)])
def test_axes_size_is_the_product_of_the_sizes(axes: tuple[int, ...], size: int) -> None:
    assert Grid("g", (2, 3, 4)).axes_size(axes) == size


@given(grids_with_axes())
def test_groups_partition_the_ranks(case: tuple[Grid, tuple[int, ...]]) -> None:
    grid, axes = case
    members = [rank for group in grid.groups(axes) for rank in group]
    assert sorted(members) == list(range(grid.size))


@given(grids_with_axes())
def test_groups_have_the_size_of_their_axes(case: tuple[Grid, tuple[int, ...]]) -> None:
    grid, axes = case
    assert {len(group) for group in grid.groups(axes)} == {grid.axes_size(axes)}


@given(grids_with_axes())
def test_members_of_a_group_agree_off_its_axes(case: tuple[Grid, tuple[int, ...]]) -> None:
    grid, axes = case
    others = [axis for axis in range(grid.rank) if axis not in axes]
    for group in grid.groups(axes):
        assert len({tuple(grid.coordinates(rank)[axis] for axis in others) for rank in group}) == 1


@given(grids_with_axes())
def test_members_of_a_group_are_in_the_order_of_index_along(
    case: tuple[Grid, tuple[int, ...]],
) -> None:
    grid, axes = case
    for group in grid.groups(axes):
        assert [grid.index_along(rank, axes) for rank in group] == list(range(len(group)))


@pytest.mark.parametrize(
    ("axes", "groups"),
    [
        ((), ((0,), (1,), (2,), (3,), (4,), (5,))),
        ((0,), ((0, 3), (1, 4), (2, 5))),
        ((1,), ((0, 1, 2), (3, 4, 5))),
        ((0, 1), ((0, 1, 2, 3, 4, 5),)),
        ((1, 0), ((0, 3, 1, 4, 2, 5),)),
    ],
)
def test_groups_follow_the_order_of_the_axes(
    axes: tuple[int, ...], groups: tuple[tuple[int, ...], ...]
) -> None:
    assert Grid("g", (2, 3)).groups(axes) == groups


def test_every_order_of_the_axes_gives_other_groups() -> None:
    grid = Grid("g", (2, 3, 4))
    assert len({grid.groups(axes) for axes in permutations(range(3))}) == 6


@pytest.mark.parametrize(
    ("axes", "indices"),
    [
        ((), [0, 0, 0, 0, 0, 0]),
        ((0,), [0, 0, 0, 1, 1, 1]),
        ((1,), [0, 1, 2, 0, 1, 2]),
        ((0, 1), [0, 1, 2, 3, 4, 5]),
        ((1, 0), [0, 2, 4, 1, 3, 5]),
    ],
)
def test_index_along_counts_the_last_listed_axis_fastest(
    axes: tuple[int, ...], indices: list[int]
) -> None:
    grid = Grid("g", (2, 3))
    assert [grid.index_along(rank, axes) for rank in range(6)] == indices


@given(grids_with_axes())
def test_group_of_is_the_one_group_that_has_the_rank(case: tuple[Grid, tuple[int, ...]]) -> None:
    grid, axes = case
    for rank in range(grid.size):
        having = [group for group in grid.groups(axes) if rank in group]
        assert having == [grid.group_of(rank, axes)]


def test_axes_may_come_as_a_list() -> None:
    assert Grid("g", (2, 3)).groups([1]) == Grid("g", (2, 3)).groups((1,))


@pytest.mark.parametrize(("shape", "static"), [((2, 3), True), ((2, None), False)])
def test_a_grid_is_static_when_every_size_is_known(
    shape: tuple[int | None, ...], static: bool
) -> None:
    assert Grid("g", shape).is_static is static


@pytest.mark.parametrize(
    "ask",
    [
        lambda grid: grid.size,
        lambda grid: grid.axes_size((1,)),
        lambda grid: grid.coordinates(0),
        lambda grid: grid.rank_at((0, 0)),
        lambda grid: grid.index_along(0, (0,)),
        lambda grid: grid.groups((0,)),
        lambda grid: grid.group_of(0, (0,)),
    ],
    ids=["size", "axes_size", "coordinates", "rank_at", "index_along", "groups", "group_of"],
)
def test_an_unknown_size_is_refused_with_the_grid_and_the_axis(
    ask: Callable[[Grid], object],
) -> None:
    with pytest.raises(ShardError, match="grid @mesh has an unknown size on axis 1"):
        ask(Grid("mesh", (2, None)))


def test_known_axes_of_a_grid_with_an_unknown_size_have_a_size() -> None:
    assert Grid("g", (2, None)).axes_size((0,)) == 2


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused_with_the_size_and_the_axis(size: int) -> None:
    with pytest.raises(ShardError, match=f"grid @mesh has size {size} on axis 1"):
        Grid("mesh", (2, size))


def test_a_grid_without_axes_is_one_device() -> None:
    assert Grid("mesh", ()).size == 1
    assert Grid("mesh", (), device_ids=(3,)).groups(()) == ((3,),)


@pytest.mark.parametrize(
    ("names", "ids", "message"),
    [
        (("x",), (), "grid @g has 1 axis names for 2 axes"),
        (("x", "x"), (), 'grid @g has two axes named "x"'),
        ((), (3, 2, 1), "grid @g of 4 devices has device ids [3, 2, 1]: expected each of 0 to 3"),
        ((), (3, 2, 1, -1), "grid @g has device id -1"),
    ],
)
def test_names_and_devices_that_no_grid_has_are_refused(
    names: tuple[str, ...], ids: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ShardError, match=re.escape(message)):
        Grid("g", (2, 2), names, ids)


def test_devices_in_order_are_no_order() -> None:
    assert Grid("g", (2, 2), device_ids=(0, 1, 2, 3)) == Grid("g", (2, 2))


def test_default_axis_names_are_no_names() -> None:
    assert Grid("g", (2, 2), ("axis_0", "axis_1")) == Grid("g", (2, 2))
    assert Grid("g", (2,)).axis_name(0) == "axis_0"


@given(st.integers(0, 3), st.integers(0, 3))
def test_sub_axes_of_one_axis_make_the_groups_of_a_refined_grid(a: int, b: int) -> None:
    coarse, fine = Grid("g", (3, 16)), Grid("g", (3, 2, 2, 2, 2))
    parts = [SubAxis(1, 2**digit, 2) for digit in range(4)]
    axes = tuple(dict.fromkeys((a, b)))
    assert coarse.groups([parts[d] for d in axes]) == fine.groups([d + 1 for d in axes])


@pytest.mark.parametrize(
    ("shape", "text"), [((4,), "@g(4)"), ((2, 3), "@g(2x3)"), ((None, 4), "@g(?x4)")]
)
def test_str_is_the_name_and_the_shape(shape: tuple[int | None, ...], text: str) -> None:
    assert str(Grid("g", shape)) == text


def test_repr_evaluates_back() -> None:
    grid = Grid("g", (2, None))
    assert eval(repr(grid)) == grid


def test_a_message_starts_in_lower_case() -> None:
    with pytest.raises(ShardError) as caught:
        Grid("g", (0,))
    assert re.match("[a-z]", caught.value.message)
