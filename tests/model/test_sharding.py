"""The notation of shardings, what they refuse, and the shards that they cut."""

import re
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_dialect.model import REDUCTIONS, Grid, Reduction, Sharding, ShardingError

Axes = tuple[int, ...]
GRID = Grid("g", (2, 3))


@st.composite
def tensors(draw: st.DrawFn) -> tuple[Grid, Sharding, tuple[int, ...]]:
    """A grid, an even sharding on it and the shape of a tensor that it shards."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    grid = Grid("g", tuple(sizes))
    rank = draw(st.integers(0, 3))
    split: list[list[int]] = [[] for _ in range(rank)]
    for axis in draw(st.permutations(range(grid.rank))):
        dim = draw(st.integers(-1, rank - 1))
        if dim >= 0:
            split[dim].append(axis)
    sharding = Sharding("g", tuple(map(tuple, split)))
    local = [draw(st.integers(1, 3)) for _ in range(rank)]
    shape = (n * grid.axes_size(axes) for n, axes in zip(local, split, strict=True))
    return grid, sharding, tuple(shape)


@pytest.mark.parametrize(
    ("sharding", "text"),
    [
        (Sharding("g", ()), "[]"),
        (Sharding("g", ((),)), "[[]]"),
        (Sharding("g", ((), (0,))), "[[], [0]]"),
        (Sharding("g", ((1, 0), ())), "[[1, 0], []]"),
        (Sharding("g", ((), (1,)), (0,)), "[[], [1], [0]]"),
        (Sharding("g", ((), ()), (0, 1), "sum"), "[[], [], [0, 1]]"),
        (Sharding("g", ((), ()), (0,), "max"), "[[], [], {max = [0]}]"),
        (Sharding("g", ((2,), ()), (0, 1), "min"), "[[2], [], {min = [0, 1]}]"),
        (Sharding("g", ((),), (0,), "product"), "[[], {product = [0]}]"),
        (Sharding("g", (), (0,)), "[[0]]"),
    ],
)
def test_str_is_the_notation(sharding: Sharding, text: str) -> None:
    assert str(sharding) == text


def test_repr_evaluates_back() -> None:
    sharding = Sharding("g", ((1,), ()), (0,), "max")
    assert eval(repr(sharding)) == sharding


@pytest.mark.parametrize(
    ("split", "partial", "text"),
    [
        (((0, 0),), (), "[[0, 0]]"),
        (((0,), (0,)), (), "[[0], [0]]"),
        (((0,), ()), (0,), "[[0], [], [0]]"),
        (((), ()), (0, 0), "[[], [], [0, 0]]"),
    ],
)
def test_an_axis_used_twice_is_refused(split: tuple[Axes, ...], partial: Axes, text: str) -> None:
    message = f"grid axis 0 is used twice in sharding {text}"
    with pytest.raises(ShardingError, match=re.escape(message)):
        Sharding("g", split, partial)


@pytest.mark.parametrize(
    ("split", "partial", "text"),
    [(((-1,), ()), (), "[[-1], []]"), (((), ()), (-1,), "[[], [], [-1]]")],
)
def test_a_negative_axis_is_refused(split: tuple[Axes, ...], partial: Axes, text: str) -> None:
    message = f"grid axis -1 is negative in sharding {text}"
    with pytest.raises(ShardingError, match=re.escape(message)):
        Sharding("g", split, partial)


def test_partial_axes_are_sorted() -> None:
    assert Sharding("g", ((),), (2, 0, 1)).partial == (0, 1, 2)


def test_the_order_of_the_partial_axes_means_nothing() -> None:
    assert Sharding("g", ((),), (1, 0)) == Sharding("g", ((),), (0, 1))


def test_the_order_of_the_split_axes_means_something() -> None:
    assert Sharding("g", ((1, 0),)) != Sharding("g", ((0, 1),))


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_without_partial_axes_the_reduction_is_sum(kind: Reduction) -> None:
    assert Sharding("g", ((0,),), (), kind) == Sharding("g", ((0,),))


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_with_partial_axes_the_reduction_is_kept(kind: Reduction) -> None:
    assert Sharding("g", ((),), (0,), kind).reduction == kind


def test_rank_counts_the_dimensions_only() -> None:
    assert Sharding("g", ((), (1,)), (0,)).rank == 2


def test_axes_are_the_split_axes_then_the_partial_ones() -> None:
    assert Sharding("g", ((3,), (1, 0)), (4, 2)).axes == (3, 1, 0, 2, 4)


@pytest.mark.parametrize(
    ("sharding", "replicated"),
    [
        (Sharding.replicated("g", 0), True),
        (Sharding.replicated("g", 2), True),
        (Sharding("g", ((), (0,))), False),
        (Sharding("g", ((), ()), (0,)), False),
    ],
)
def test_replicated_is_neither_split_nor_partial(sharding: Sharding, replicated: bool) -> None:
    assert sharding.is_replicated is replicated


def test_with_dim_replaces_the_axes_of_one_dimension() -> None:
    sharding = Sharding("g", ((0,), (1,), ()), (2,), "max")
    assert sharding.with_dim(1, [3, 4]) == Sharding("g", ((0,), (3, 4), ()), (2,), "max")


def test_with_dim_refuses_an_axis_of_another_dimension() -> None:
    with pytest.raises(ShardingError, match="grid axis 0 is used twice"):
        Sharding("g", ((0,), ())).with_dim(1, (0,))


def test_with_partial_replaces_the_partial_axes_and_the_kind() -> None:
    sharding = Sharding("g", ((0,),), (1,), "max")
    assert sharding.with_partial([2], "min") == Sharding("g", ((0,),), (2,), "min")


def test_with_partial_of_no_axes_leaves_the_split() -> None:
    assert Sharding("g", ((0,),), (1,), "max").with_partial(()) == Sharding("g", ((0,),))


@pytest.mark.parametrize(
    ("sharding", "rank"),
    [
        (Sharding("g", ((1, 0), ())), 2),
        (Sharding("g", ((0,), ()), (1,)), 2),
        (Sharding("g", ()), 0),
        (Sharding("g", ((0,),)), 2),
    ],
)
def test_check_accepts_what_a_tensor_can_have(sharding: Sharding, rank: int) -> None:
    sharding.check(GRID, rank)


@pytest.mark.parametrize(
    ("sharding", "text"),
    [
        (Sharding("g", ((2,), ())), "[[2], []]"),
        (Sharding("g", ((), ()), (2,)), "[[], [], [2]]"),
    ],
)
def test_check_refuses_an_axis_that_is_not_in_the_grid(sharding: Sharding, text: str) -> None:
    message = f"grid axis 2 in sharding {text} is not in grid @g of rank 2"
    with pytest.raises(ShardingError, match=re.escape(message)):
        sharding.check(GRID, 2)


def test_check_refuses_more_dimensions_than_the_tensor_has() -> None:
    message = "sharding [[0], []] has split axes for 2 dimensions, but the tensor has 1"
    with pytest.raises(ShardingError, match=re.escape(message)):
        Sharding("g", ((0,), ())).check(GRID, 1)


@pytest.mark.parametrize(
    ("sharding", "shape"),
    [
        (Sharding("g", ((), ())), (12, 18)),
        (Sharding("g", ((0,), ())), (6, 18)),
        (Sharding("g", ((0,), (1,))), (6, 6)),
        (Sharding("g", ((), (1, 0))), (12, 3)),
        (Sharding("g", ((), (0,)), (1,)), (12, 9)),
    ],
)
def test_a_local_shape_is_divided_by_the_split_axes(
    sharding: Sharding, shape: tuple[int, ...]
) -> None:
    assert sharding.local_shape((12, 18), GRID) == shape


def test_shards_of_an_uneven_dimension_are_as_the_first_one() -> None:
    sharding = Sharding("g", ((0,), (1,)))
    assert sharding.local_shape((5, 4), GRID) == (3, 2)
    shards = [sharding.shard(rank, (5, 4), GRID) for rank in range(6)]
    assert [shard[0] for shard in shards[::3]] == [slice(0, 3), slice(3, 5)]
    assert [shard[1] for shard in shards[:3]] == [slice(0, 2), slice(2, 4), slice(4, 4)]


@pytest.mark.parametrize(
    ("shape", "dim"), [((4, 6), None), ((3, 6), 0), ((4, 4), 1), ((3, 4), 0), ((0, 0), None)]
)
def test_uneven_dim_is_the_first_that_does_not_divide(
    shape: tuple[int, ...], dim: int | None
) -> None:
    assert Sharding("g", ((0,), (1,))).uneven_dim(shape, GRID) == dim


def test_a_replicated_dimension_is_never_uneven() -> None:
    assert Sharding("g", ((), (0,))).uneven_dim((5, 2), GRID) is None


def test_local_elements_is_the_size_of_a_shard() -> None:
    assert Sharding("g", ((0,), (1,))).local_elements((12, 18), GRID) == 36


@pytest.mark.parametrize(
    ("axes", "starts"),
    [
        ((), [0, 0, 0, 0, 0, 0]),
        ((0,), [0, 0, 0, 6, 6, 6]),
        ((1,), [0, 4, 8, 0, 4, 8]),
        ((0, 1), [0, 2, 4, 6, 8, 10]),
        ((1, 0), [0, 4, 8, 2, 6, 10]),
    ],
)
def test_shards_lie_in_the_order_of_the_axes(axes: Axes, starts: list[int]) -> None:
    sharding = Sharding("g", (axes,))
    assert [sharding.shard(rank, (12,), GRID)[0].start for rank in range(6)] == starts


@given(tensors())
def test_shards_have_the_local_shape(case: tuple[Grid, Sharding, tuple[int, ...]]) -> None:
    grid, sharding, shape = case
    for rank in range(grid.size):
        shard = sharding.shard(rank, shape, grid)
        assert tuple(part.stop - part.start for part in shard) == sharding.local_shape(shape, grid)


@given(tensors())
def test_every_element_is_on_as_many_devices_as_replicate_it(
    case: tuple[Grid, Sharding, tuple[int, ...]],
) -> None:
    grid, sharding, shape = case
    holders = Counter(
        element
        for rank in range(grid.size)
        for element in product(
            *(range(part.start, part.stop) for part in sharding.shard(rank, shape, grid))
        )
    )
    copies = grid.size // grid.axes_size(sharding.axes)
    assert holders == dict.fromkeys(product(*map(range, shape)), copies)


@given(tensors())
def test_devices_apart_on_unused_axes_only_hold_the_same_shard(
    case: tuple[Grid, Sharding, tuple[int, ...]],
) -> None:
    grid, sharding, shape = case
    unused = [axis for axis in range(grid.rank) if axis not in sharding.axes]
    for group in grid.groups(unused):
        shards = [sharding.shard(rank, shape, grid) for rank in group]
        assert all(shard == shards[0] for shard in shards)


def test_partial_axes_cut_nothing() -> None:
    sharding = Sharding("g", ((0,), ()), (1,))
    assert sharding.shard(4, (2, 3), GRID) == (slice(1, 2), slice(0, 3))
