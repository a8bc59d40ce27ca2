"""The meetings of devices that are threads: rounds, ends, and reductions of large arrays."""

import threading
from collections.abc import Callable

import numpy as np
import pytest

from shard_dialect.model import REDUCTIONS, Grid, Reduction
from shard_dialect.runtime.communicators.join_shards import join
from shard_dialect.runtime.communicators.mailbox import Meeting
from shard_dialect.runtime.communicators.thread_devices import _TOGETHER, ThreadDevice, _World


def on_threads(size: int, work: Callable[[int], None]) -> list[BaseException]:
    """Run `work` for each member; returns what they raised."""
    raised: list[BaseException] = []

    def run(member: int) -> None:
        try:
            work(member)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(member,), daemon=True) for member in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def test_nobody_goes_on_before_all_have_come() -> None:
    size, rounds = 5, 300
    meeting, counts = Meeting(size), [0] * size

    def work(member: int) -> None:
        for number in range(rounds):
            counts[member] = number
            meeting.wait(member)
            assert min(counts) >= number
            meeting.wait(member)

    assert not on_threads(size, work)
    assert not any(map(meeting.waits, range(size)))


def test_who_waits_and_who_comes_later_ends_after_abort() -> None:
    meeting = Meeting(3)

    def work(member: int) -> None:
        if member == 0:
            while not meeting.waits(1):
                pass
            meeting.abort()
        meeting.wait(member)

    raised = on_threads(2, work)
    assert [type(each) for each in raised] == [threading.BrokenBarrierError] * 2


@pytest.mark.parametrize("size", [1, 3, 4])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_large_arrays_are_reduced_in_the_members_order(size: int, reduction: Reduction) -> None:
    is_bits = reduction.startswith("bitwise")
    shape = (_TOGETHER // 12 + 5, 3)  # in blocks that are not of one size
    generator = np.random.default_rng(size)
    sent = [
        generator.integers(0, 99, shape).astype(np.int32)
        if is_bits
        else generator.standard_normal(shape).astype(np.float32)
        for _ in range(size)
    ]
    expected = np.empty_like(sent[0])
    join(sent, expected, reduction)
    world, grid = _World(size), Grid("g", (size,))
    results = [np.empty_like(sent[0]) for _ in range(size)]

    def work(member: int) -> None:
        group = ThreadDevice(world, member).join(grid, (0,))
        for _ in range(3):
            group.all_reduce(sent[member], results[member], reduction)
            np.testing.assert_array_equal(results[member], expected)
            results[member][...] = 0  # as the code may, once it goes on

    assert not on_threads(size, work)
