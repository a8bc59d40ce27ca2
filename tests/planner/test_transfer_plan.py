"""A transfer moves to each device what it lacks, once, and loads the devices evenly."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import pytest

from shard_dialect.model import Grid, Sharding
from shard_dialect.model.sub_cluster import Place
from shard_dialect.model.transfer_plan import (
    End,
    Message,
    Transfer,
    TransferPlan,
    most_lacked,
    moved_at_least,
    plan_transfer,
)

Elements = dict[tuple[int, ...], int]
"""Where a device has each element of a tensor: its place in the shard."""


def on_stage(sharding: Sharding, grid: Grid, fixed: dict[int, int]) -> End:
    return End(sharding, Place(grid, tuple(fixed), frozenset({tuple(fixed.values())})))


def planned(source: End, target: End, shape: tuple[int, ...]) -> TransferPlan:
    return plan_transfer(Transfer.between(source, target, shape))


def shards(end: End, shape: tuple[int, ...]) -> dict[int, dict[tuple[int, ...], tuple[int, ...]]]:
    """For each device, where in its shard each element of the tensor is, worked out apart."""
    found = {}
    grid = end.place.grid
    for rank in range(grid.size):
        at_rank = grid.coordinates(rank)
        if tuple(at_rank[axis] for axis in end.place.axes) not in end.place.indices:
            continue
        at = end.sharding.shard(rank, shape, grid)
        begins = [each.start for each in at]
        elements = product(*(range(each.start, each.stop) for each in at))
        found[rank] = {
            element: tuple(e - b for e, b in zip(element, begins, strict=True))
            for element in elements
        }
    return found


def moved(message: Message) -> list[tuple[tuple[int, ...], ...]]:
    """The places in the sender's and in the receiver's shard of each element of a box."""
    return [
        tuple(
            tuple(a + b for a, b in zip(begin, at, strict=True))
            for begin in (message.taken_at, message.put_at)
        )
        for at in product(*map(range, message.shape))
    ]


def check(plan: TransferPlan, source: End, target: End, shape: tuple[int, ...]) -> None:
    """Each element of a shard comes once, from where it is, and only if the device has it not.

    What devices have behind an uneven dimension's end may be sent, too.
    """
    had, wanted = shards(source, shape), shards(target, shape)
    got: Counter[tuple[int, tuple[int, ...]]] = Counter()
    groups = source.place.grid.groups(plan.axes)
    assert all(len(group) == plan.members.size for group in groups)
    for each in plan.rounds:
        for key in ("sender", "receiver"):
            ranks = [getattr(message, key) for message in each.messages]
            assert len(set(ranks)) == len(ranks)
        for group, message in product(groups, each.messages):
            assert all(a <= b for a, b in zip(message.shape, each.shape, strict=True))
            assert each.stays == (message.sender == message.receiver)
            sender, receiver = group[message.sender], group[message.receiver]
            elements = {at: element for element, at in had[sender].items()}
            for taken, put in moved(message):
                if taken not in elements:
                    assert put not in wanted[receiver].values()
                    continue
                assert wanted[receiver][elements[taken]] == put
                assert each.stays or elements[taken] not in had.get(receiver, {})
                got[receiver, put] += 1
    assert got == {(rank, at): 1 for rank, each in wanted.items() for at in each.values()}


def random_end(draw: Random, grid: Grid, rank: int) -> End:
    fixed = {
        axis: draw.randrange(size)
        for axis, size in enumerate(grid.sizes_along(range(grid.rank)))
        if draw.random() < 0.4
    }
    dims: list[list[int]] = [[] for _ in range(rank)]
    for axis in range(grid.rank):
        if axis not in fixed and draw.random() < 0.7:
            draw.choice(dims).append(axis)
    return on_stage(Sharding(grid.name, tuple(map(tuple, dims))), grid, fixed)


@pytest.mark.parametrize("seed", range(80))
def test_each_element_arrives_once_where_it_lacks(seed: int) -> None:
    draw = Random(seed)
    grid = Grid("g", draw.choice(((2, 2), (4,), (3, 2), (2, 2, 2), (3, 3))))
    shape = tuple(draw.choice((1, 3, 4, 6)) for _ in range(draw.randint(1, 2)))
    source, target = (random_end(draw, grid, len(shape)) for _ in range(2))
    check(planned(source, target, shape), source, target, shape)


@pytest.mark.parametrize("seed", range(80))
def test_no_choice_of_senders_loads_a_device_less(seed: int) -> None:
    """Of the boxes that divide evenly, as a search through all loads finds."""
    draw = Random(seed)
    grid = Grid("g", draw.choice(((2, 2), (4,), (2, 2, 2), (2, 4))))
    shape = (8, 8)
    source, target = (random_end(draw, grid, 2) for _ in range(2))
    plan = planned(source, target, shape)
    had, wanted = shards(source, shape), shards(target, shape)
    receives = max(len(set(each) - set(had.get(rank, ()))) for rank, each in wanted.items())
    assert plan.bytes_moved(1) == max(receives, least_load(had, wanted))


@pytest.mark.parametrize("seed", range(80))
def test_no_plan_is_below_what_is_moved_at_least(seed: int) -> None:
    """Of whole tensors, and where one is a part of the other that begins at offsets."""
    draw = Random(seed)
    grid = Grid("g", draw.choice(((2, 2), (4,), (3, 2), (2, 2, 2), (3, 3))))
    whole = tuple(draw.choice((1, 3, 4, 6)) for _ in range(draw.randint(1, 2)))
    part = tuple(draw.randint(1, size) for size in whole)
    at = tuple(draw.randint(0, size - of) for size, of in zip(whole, part, strict=True))
    one, other = (random_end(draw, grid, len(whole)) for _ in range(2))
    ends = [(one, whole), (replace(other, offsets=at), part)]
    for (source, shape), (target, target_shape) in (ends, ends[::-1]):
        transfer = Transfer.between(source, target, shape, target_shape)
        least, moved = moved_at_least(transfer), plan_transfer(transfer).moved
        assert sum(least.most) <= most_lacked(transfer) <= sum(moved.most)
        assert sum(least.messages) <= sum(moved.messages)
        assert least.rounds <= moved.rounds


def least_load(had: dict, wanted: dict) -> int:
    """The fewest elements that the most loaded device sends: all sets of holders tell it.

    What only devices of a set hold, these send, by Hall's theorem; loads are whole boxes.
    """
    lacking: dict[frozenset[int], int] = defaultdict(int)
    boxes = set()
    for rank, each in wanted.items():
        by_holders: dict[frozenset[int], int] = defaultdict(int)
        for element in set(each) - set(had.get(rank, ())):
            holders = frozenset(other for other, its in had.items() if element in its)
            by_holders[holders] += 1
        boxes |= set(by_holders.values())
        for holders, count in by_holders.items():
            lacking[holders] += count
    if not lacking:
        return 0
    assert len(boxes) == 1, "all dimensions are divided evenly, so all boxes are alike"
    (box,) = boxes
    # Tiles are disjoint, so holders are either the same or have no device in common.
    return max(-(-count // box // len(holders)) * box for holders, count in lacking.items())


def test_a_row_of_a_grid_to_a_column() -> None:
    grid, shape = Grid("g", (3, 3)), (12, 9)
    row = on_stage(Sharding("g", ((), (1,))), grid, {0: 0})
    column = on_stage(Sharding("g", ((0,), ())), grid, {1: 0})
    plan = planned(row, column, shape)
    assert plan.bytes_moved(4) == 144  # each of the row sends a third of its columns to each other
    assert sum(len(each.messages) for each in plan.rounds if not each.stays) == 8


def test_loads_are_those_of_the_rounds() -> None:
    grid = Grid("g", (4,))
    one = on_stage(Sharding("g", ((),)), grid, {0: 2})
    every = on_stage(Sharding("g", ((0,),)), grid, {})
    plan = planned(one, every, (8,))
    assert plan.bytes_moved(4) == 3 * 2 * 4
    assert prod(plan.rounds[0].shape) == 2
    assert plan.rounds[0].stays
