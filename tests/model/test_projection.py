"""Dimensions to factors and back; a grid seen more finely."""

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_dialect.model import Grid, Sharding, ShardingError, SubAxis
from shard_dialect.model.factor_projection import axes_of, joint, project, sub_axes_of, unproject
from shard_dialect.model.grid import Axes, Axis, first_overlap
from shard_dialect.model.grid_refinement import Refinement

GRID = Grid("g", (4, 6, 2))
PARTS: list[Axis] = [
    *(0, 1, 2),
    *(SubAxis(0, 1, 2), SubAxis(0, 2, 2), SubAxis(1, 1, 2), SubAxis(1, 2, 3)),
]


@st.composite
def splits(draw: st.DrawFn, rank: int) -> tuple[Axes, ...]:
    """Axes for each dimension, none of them twice, neighbours that are one written as one."""
    axes = draw(st.permutations(PARTS))
    split: list[list[Axis]] = [[] for _ in range(rank)]
    used: list[Axis] = []
    for axis in axes[: draw(st.integers(0, 4))]:
        if rank and first_overlap([*used, axis]) is None:
            used.append(axis)
            split[draw(st.integers(0, rank - 1))].append(axis)
    return tuple(axes_of(sub_axes_of(tuple(each), GRID), GRID) for each in split)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[tuple[tuple[int, ...], ...], list[int]]:
    """The factors of each dimension, and their sizes."""
    sizes: list[int] = []
    dims = []
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, 3))
        dims.append(tuple(range(len(sizes), len(sizes) + count)))
        sizes += draw(st.lists(st.sampled_from([2, 3, 4, 6, 8, 5]), min_size=count, max_size=count))
    return tuple(dims), sizes


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_there_and_back_is_the_same(data: st.DataObject) -> None:
    dims, sizes = data.draw(tensors())
    split = data.draw(splits(len(dims)))
    parts = [sub_axes_of(axes, GRID) for axes in split]
    factors = project(dims, sizes, parts, [False] * len(dims))
    back = unproject(dims, sizes, factors)
    assert tuple(axes_of(each, GRID) for each in back) == split


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_factor_that_is_not_last_is_split_evenly(data: st.DataObject) -> None:
    dims, sizes = data.draw(tensors())
    parts = [sub_axes_of(axes, GRID) for axes in data.draw(splits(len(dims)))]
    for factor, here in project(dims, sizes, parts, [False] * len(dims)).items():
        if not here.is_minor:
            assert sizes[factor] % prod(size for _, _, size in here.axes) == 0


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_what_two_agree_on_begins_both_or_is_one_of_them(data: st.DataObject) -> None:
    a, b = (sub_axes_of(data.draw(splits(1))[0], GRID) for _ in range(2))
    both, may_grow = joint(a, b, True)
    assert joint(b, a, True) == (both, may_grow)
    if may_grow:
        assert both in (a, b)
    assert joint(both, a, True)[0] in (both, a)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_on_the_finer_grid_each_device_has_the_same_shard(data: st.DataObject) -> None:
    split = data.draw(splits(3))
    sharding = Sharding("g", split)
    refinement = Refinement.of(GRID, PARTS)
    assert refinement is not None
    fine = refinement.refined(sharding)
    assert not any(isinstance(axis, SubAxis) for axis in fine.axes)
    shape = (48, 96, 48)
    assert refinement.fine.size == GRID.size
    for rank in range(GRID.size):
        assert fine.shard(rank, shape, refinement.fine) == sharding.shard(rank, shape, GRID)


def test_parts_that_cross_have_no_finer_grid() -> None:
    with pytest.raises(ShardingError, match="used in sub-axes of 2 and 3, which cross each other"):
        Refinement.of(GRID, [SubAxis(1, 1, 2), SubAxis(1, 1, 3)])


def test_whole_axes_need_no_finer_grid() -> None:
    assert Refinement.of(GRID, [0, 1]) is None


@pytest.mark.parametrize(
    ("split", "shape", "even"),
    [
        (((0, 2), ()), (4, 3), "[[0], []]"),
        (((2, 0), ()), (4, 3), '[[2, "0:(1)2"], []]'),
        (((1,), (0,)), (3, 8), '[["1:(1)3"], [0]]'),
        (((0,), (2,)), (8, 2), "[[0], [2]]"),
        (((0,), ()), (6, 2), '[["0:(1)2"], []]'),
    ],
)
def test_the_even_part(split: tuple[Axes, ...], shape: tuple[int, ...], even: str) -> None:
    assert str(Sharding("g", split).without_uneven_axes(shape, GRID)) == even
