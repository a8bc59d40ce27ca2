"""The seconds of collectives, against the formulas worked out by hand."""

import pytest

from shard_dialect.collectives import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Broadcast,
    Exchange,
    Gather,
    Mask,
    Permute,
    Receive,
    Reduce,
    ReduceScatter,
    Scatter,
    Send,
    Shift,
    UpdateHalo,
)
from shard_dialect.collectives.collective_time import seconds, time_of
from shard_dialect.errors import ShardError
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.devices.device_model import DeviceModel, NetworkLevel

NODES = DeviceModel(
    "nodes of 4",
    (("f32", 1.0),),
    1,
    1.0,
    (NetworkLevel("in", 4, 100.0, 1.0), NetworkLevel("out", None, 10.0, 5.0)),
)
"""100 bytes a second inside of nodes of four, 10 between them; 1 and 5 seconds of latency."""
TORUS = DeviceModel(
    "4x4",
    (("f32", 1.0),),
    1,
    1.0,
    (NetworkLevel("x", 4, 100.0, 1.0, True), NetworkLevel("y", 16, 100.0, 1.0, True)),
)
ROW = Grid("row", (4,))
PAIR = Grid("pair", (2, 4))
EVEN = Sharding("row", ((0,), ()))
APART = Sharding("row", ((0,), ()), offsets=((0, 1, 4, 6, 8), ()))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (AllGather(0, (0,)), 2 + 3 * 8),  # Bruck
        (ReduceScatter(0, (0,)), 2 + 3 / 4 * 8),  # recursive halving
        (AllReduce((0,)), 4 + 2 * 3 / 4 * 8),
        (AllToAll(0, 1, (0,)), 3 * (1 + 8 / 4)),  # pairwise; Bruck's is 2 * (1 + 4)
        (Broadcast((0,), (0,)), (2 + 3) + 2 * 3 / 4 * 8),
        (Gather(0, (0,), (0,)), 2 + 3 * 8),
        (Scatter(0, (0,), (0,)), 2 + 3 / 4 * 8),
        (Reduce((0,), (0,)), 4 + 2 * 3 / 4 * 8),
        (Permute((0,), (1, 2, 3, 0)), 1 + 8),
        (Permute((0,), (0, 1, 2, 3)), 0),
        (Shift((0,), 0, 1), 1 + 8),
        (Receive((0,), (2,)), 1 + 8),
        (Send((0,), (2,)), 0),
        (AllSlice(0, (0,)), 0),
        (Mask((0,)), 0),
        (UpdateHalo(0, (0,), 1, 2), (1 + 0.8) + (1 + 1.6)),
        (Exchange.between(EVEN, APART, (8, 20), ROW), 1 + 0.8),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_on_one_level(step: object, expected: float) -> None:
    """800 bytes: ten rows of twenty numbers of four bytes."""
    assert seconds(step, ROW, (10, 20), 4, NODES) == pytest.approx(expected)  # type: ignore[arg-type]


def test_latency_chooses_the_algorithm() -> None:
    small = time_of(AllReduce((0,)), ROW, (1,), 4, NODES)
    large = time_of(AllReduce((0,)), ROW, (1000,), 4, NODES)
    assert small.algorithm == "recursive doubling"
    assert small.seconds == pytest.approx(2 * (1 + 0.04))
    assert large.algorithm == "recursive halving"
    three = Grid("three", (3,))  # no power of two
    assert time_of(AllReduce((0,)), three, (1000,), 4, NODES).algorithm == "ring"


def test_hierarchical_all_reduce() -> None:
    """Inside 4000 bytes are reduced and scattered; outside 1000 bytes; inside they are gathered."""
    inside = (2 + 3 / 4 * 40) + (2 + 3 * 10)
    outside = 5 + 100  # two devices exchange
    assert seconds(AllReduce((0, 1)), PAIR, (1000,), 4, NODES) == pytest.approx(inside + outside)


def test_hierarchical_all_gather_moves_the_least_outside() -> None:
    outside, inside = 5 + 400 / 10, 2 + 3 * 800 / 100
    assert seconds(AllGather(0, (0, 1)), PAIR, (100,), 4, NODES) == pytest.approx(outside + inside)


def test_the_axes_of_a_grid_are_levels_by_device_number() -> None:
    inside, outside = 2 + 3 * 4, 5 + 40.0
    assert seconds(AllGather(0, (1,)), PAIR, (100,), 4, NODES) == pytest.approx(inside)
    assert seconds(AllGather(0, (0,)), PAIR, (100,), 4, NODES) == pytest.approx(outside)
    swapped = Grid("swapped", (4, 2), device_ids=(0, 4, 1, 5, 2, 6, 3, 7))
    assert seconds(AllGather(0, (0,)), swapped, (100,), 4, NODES) == pytest.approx(inside)
    assert seconds(AllGather(0, (1,)), swapped, (100,), 4, NODES) == pytest.approx(outside)


def test_the_slowest_group_counts() -> None:
    """Devices 0 and 1, and devices 2 and 5, of which the second pair is on two nodes."""
    grid = Grid("g", (4, 2), device_ids=(0, 1, 2, 5, 3, 4, 6, 7))
    assert seconds(AllGather(0, (1,)), grid, (100,), 4, NODES) == pytest.approx(5 + 40.0)


def test_an_uneven_group_is_flat() -> None:
    grid = Grid("six", (6,))  # four devices in one node, two in the other
    expected = 3 * 5 + 5 * 40.0
    assert seconds(AllGather(0, (0,)), grid, (100,), 4, NODES) == pytest.approx(expected)


def test_torus() -> None:
    grid = Grid("g", (4, 4))
    along_one = 2 + 3 * 4
    assert seconds(AllGather(0, (1,)), grid, (100,), 4, TORUS) == pytest.approx(along_one)
    assert seconds(AllGather(0, (0,)), grid, (100,), 4, TORUS) == pytest.approx(along_one)
    # Half of the data in each dimension first: 2 + 3 * 2 seconds, then 2 + 3 * 8.
    both = (2 + 3 * 2) + (2 + 3 * 8)
    assert seconds(AllGather(0, (0, 1)), grid, (100,), 4, TORUS) == pytest.approx(both)
    # One direction has half of the bandwidth, and two hops take twice as long.
    right = Permute((1,), (1, 2, 3, 0))
    across = Permute((1,), (2, 3, 0, 1))
    assert seconds(right, grid, (100,), 4, TORUS) == pytest.approx(1 + 8)
    assert seconds(across, grid, (100,), 4, TORUS) == pytest.approx(2 * (1 + 8))


def test_part_of_a_ring_has_half_of_its_bandwidth() -> None:
    line = Grid("line", (2,))
    assert seconds(AllGather(0, (0,)), line, (100,), 4, TORUS) == pytest.approx(1 + 8)
    # Two groups lie interleaved on a ring of four: they share the links, and go around.
    strided = Grid("g", (2, 2))
    assert seconds(AllGather(0, (0,)), strided, (100,), 4, TORUS) == pytest.approx(1 + 8)


def test_too_many_devices() -> None:
    with pytest.raises(ShardError, match="runs on 32 devices, device model '4x4' has 16"):
        seconds(AllReduce((0,)), Grid("g", (32,)), (1,), 4, TORUS)
