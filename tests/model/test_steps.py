"""What each step of a plan does to a sharding, and what it refuses."""

import re

import pytest

from shard_dialect.collectives import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    ReduceScatter,
    ReshardError,
    Step,
)
from shard_dialect.model import Sharding, ShardingError
from tests.model.interpreter import lay


@pytest.mark.parametrize(
    ("step", "moved"),
    [
        (AllGather(0, (0,)), 24),
        (AllSlice(0, (0,)), 0),
        (AllReduce((0,)), 12),
        (ReduceScatter(0, (0,)), 6),
        (AllToAll(0, 1, (0,)), 6),
    ],
    ids=str,
)
def test_bytes_moved_among_4_devices_of_8_bytes_each(step: Step, moved: int) -> None:
    assert step.bytes_moved(4, (2, 1), 4) == moved


@pytest.mark.parametrize(
    "step",
    [
        AllGather(0, (0,)),
        AllSlice(0, (0,)),
        AllReduce((0,)),
        ReduceScatter(0, (0,)),
        AllToAll(0, 1, (0,)),
    ],
    ids=lambda step: step.kind,
)
def test_a_group_of_one_moves_nothing(step: Step) -> None:
    assert step.bytes_moved(1, (2, 1), 4) == 0


@pytest.mark.parametrize(
    ("step", "before", "text"),
    [
        (AllGather(0, (1,)), lay((0, 1), ()), "[[0], []]"),
        (AllSlice(1, (2, 1)), lay((), (0,)), "[[], [0, 2, 1]]"),
        (
            AllReduce((1,), "max"),
            lay((), (), partial=(0, 1), kind="max"),
            "[[], [], {max = [0]}]",
        ),
        (ReduceScatter(0, (2, 1)), lay((0,), (), partial=(1, 2)), "[[0, 2, 1], []]"),
        (AllToAll(0, 1, (1, 0)), lay((1, 0), (2,)), "[[], [2, 1, 0]]"),
    ],
    ids=str,
)
def test_after_is_the_sharding_that_a_step_leaves(step: Step, before: Sharding, text: str) -> None:
    assert str(step.after(before)) == text


@pytest.mark.parametrize(
    ("step", "before", "message"),
    [
        (
            AllGather(0, (0,)),
            lay((0, 1)),
            "axes [0] are not the minor axes of dimension 0 in sharding [[0, 1]]",
        ),
        (
            AllGather(0, ()),
            lay((0,)),
            "axes [] are not the minor axes of dimension 0 in sharding [[0]]",
        ),
        (
            AllToAll(1, 0, (0, 1)),
            lay((), (1, 0)),
            "axes [0, 1] are not the minor axes of dimension 1 in sharding [[], [1, 0]]",
        ),
        (
            AllReduce((1,)),
            lay((), partial=(0,)),
            "sharding [[], [0]] is not partial sum over axes [1]",
        ),
        (
            ReduceScatter(0, (0,), "max"),
            lay((), partial=(0,)),
            "sharding [[], [0]] is not partial max over axes [0]",
        ),
    ],
    ids=str,
)
def test_a_step_refuses_a_sharding_that_it_does_not_fit(
    step: Step, before: Sharding, message: str
) -> None:
    with pytest.raises(ReshardError, match=re.escape(message)):
        step.after(before)


def test_a_slice_refuses_axes_in_use() -> None:
    with pytest.raises(ShardingError, match="grid axis 0 is used twice"):
        AllSlice(1, (0,)).after(lay((0,), ()))
