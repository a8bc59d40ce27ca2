"""Devices in this process: one thread each, synchronized at every collective.

The compiled code does not hold the interpreter's lock, so the devices compute at the same time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import pairwise

import numpy as np

from shard_dialect.abi.lowered_program import Site
from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError
from shard_dialect.model import Axes, Grid, Reduction
from shard_dialect.runtime.communicators.announce_failures import AnnouncingCommunicator
from shard_dialect.runtime.communicators.group import Group
from shard_dialect.runtime.communicators.join_shards import join
from shard_dialect.runtime.communicators.mailbox import (
    TICK,
    Arrays,
    Mailbox,
    Meeting,
    begin,
)
from shard_dialect.runtime.communicators.perform_collectives import Member
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.profiling.recorder import Recorder

_TOGETHER = 1 << 18
"""The bytes that a member sends, up to which one member does the work of all."""
_GRACE = 1.0
"""The seconds that devices have to stop once one has failed: their code may be in a loop."""


def run_devices(
    executable: Executable,
    inputs: Sequence[Sequence[Array]],
    recorders: Sequence[Recorder] | None = None,
) -> list[list[Array]]:
    """Run as many devices as `inputs` has lists of shards; return their shards of the results.

    A recorder for each device, by rank, is told what it does when. If one device fails, all stop,
    and the first exception is raised.
    """

    def run(device: ThreadDevice, stop: Callable[[BaseException], None]) -> list[Array]:
        device.recorder = recorders[device.rank] if recorders else None
        with device.recorder.running() if device.recorder else nullcontext():
            return executable.run(inputs[device.rank], AnnouncingCommunicator(device, stop))

    return in_threads(len(inputs), run)


def in_threads(
    size: int, run: Callable[[ThreadDevice, Callable[[BaseException], None]], list[Array]]
) -> list[list[Array]]:
    """The results of `run` on each device, called in a thread with the device.

    It is also given a function that ends all devices because of an exception. If one device fails,
    all stop, and the first exception is raised.
    """
    world = _World(size)
    outputs: list[list[Array]] = [[] for _ in range(size)]
    errors: list[BaseException] = []

    def stop(error: BaseException) -> None:
        if not isinstance(error, threading.BrokenBarrierError):  # another device has the cause
            errors.append(error)
        world.abort()

    def device(rank: int) -> None:
        member = ThreadDevice(world, rank)
        try:
            outputs[rank] = run(member, stop)
        except BaseException as error:
            stop(error)
        finally:
            member.rest()
            world.post.leave(rank)

    try:
        _wait(_start(device, size), errors, world.post, stop)
    except BaseException:
        world.abort()
        raise
    if errors:
        raise errors[0]
    return outputs


def _start(device: Callable[[int], None], count: int) -> list[threading.Lock]:
    try:
        return [begin(partial(device, rank)) for rank in range(count)]
    except RuntimeError as error:
        message = f"cannot start a thread for each of {count} devices: {error}"
        raise ShardError(message) from None


def _wait(
    running: Sequence[threading.Lock],
    errors: Sequence[BaseException],
    post: Mailbox,
    stop: Callable[[BaseException], None],
) -> None:
    """Wait until all devices have ended, or for some time after an error; stop them if none can."""
    deadline: float | None = None
    for each in running:
        while not each.acquire(timeout=_left(deadline)):
            found = None if errors else post.deadlock()
            if found:
                stop(found)
            if errors and deadline is None:
                deadline = time.monotonic() + _GRACE
            if deadline is not None and time.monotonic() >= deadline:
                return


def _left(deadline: float | None) -> float:
    return TICK if deadline is None else max(0.0, deadline - time.monotonic())


class _World:
    """The meeting points of all groups, and the mailbox of their members."""

    def __init__(self, size: int) -> None:
        self.post = Mailbox(size)
        self._meetings: dict[tuple[int, ...], Meeting] = {}
        self._lock = threading.Lock()
        self._aborted = False

    def meeting(self, ranks: tuple[int, ...]) -> Meeting:
        with self._lock:
            if ranks not in self._meetings:
                self._meetings[ranks] = Meeting(len(ranks))
                if self._aborted:
                    self._meetings[ranks].abort()
            return self._meetings[ranks]

    def abort(self) -> None:
        with self._lock:
            self._aborted = True
            self.post.abort()
            for meeting in self._meetings.values():
                meeting.abort()


class ThreadDevice(Member):
    """One device, which a thread runs."""

    def __init__(self, world: _World, rank: int) -> None:
        super().__init__(rank)
        self._world = world
        self.site: Site | None = None
        """Of the collective that the device executes."""
        self._by_ranks: dict[tuple[tuple[int, ...], int], _Group] = {}

    def _perform(self, site: Site, source: Array, target: Array) -> None:
        self.site = site
        super()._perform(site, source, target)

    def join(self, grid: Grid, axes: Axes) -> Group:
        """As `Member.join`."""
        return self.group_of(grid.group_of(self.rank, axes))

    def group_of(self, ranks: tuple[int, ...], tag: int = 0) -> Group:
        """The group of these devices, of which this is one; its messages have the tag."""
        group = _Group(self._world.meeting(ranks), ranks, self, self._world.post, tag)
        return self._by_ranks.setdefault((ranks, tag), group)


class _Group:
    def __init__(
        self,
        meeting: Meeting,
        ranks: tuple[int, ...],
        device: ThreadDevice,
        post: Mailbox,
        tag: int = 0,
    ) -> None:
        self.size = len(ranks)
        self.index = ranks.index(device.rank)
        self._device = device
        self._ranks = ranks
        self._meeting = meeting
        self._post = post
        self._tag = tag

    def _exchange(self, send: Array, into: Array, write: _Write, argument: object = None) -> None:
        """Have `write` give the members their results, once all have come.

        The last member that comes does so for all if the arrays, which have the same size on all,
        are small: that takes less than waking the others, each of which would do its part while
        the rest wait for the interpreter's lock. With large ones each does its own, and waits until
        all have read what it sent.
        """
        members = self._meeting.members
        members[self.index] = send, into, argument
        if send.nbytes <= _TOGETHER:
            self._meet(partial(write, members, range(self.size)))
            return
        self._meet()
        write(members, (self.index,))
        self._meet()

    def _meet(self, at_last: Callable[[], None] | None = None) -> None:
        self._post.meet(self._ranks, self._meeting, self.index, self._device.site, at_last)

    def all_gather(self, send: Array, into: Array) -> None:
        self._exchange(send, into, _gather)

    def all_reduce(self, send: Array, into: Array, reduction: Reduction) -> None:
        if send.nbytes > _TOGETHER:
            self._reduce_by_blocks(send, into, reduction)
        else:
            self._exchange(send, into, _reduce_to_all, reduction)

    def _reduce_by_blocks(self, send: Array, into: Array, reduction: Reduction) -> None:
        """Reduce a block of the elements, and copy the others from the members that reduce them."""
        flat = into.reshape(-1)
        assert np.shares_memory(flat, into), "the code's own buffers are contiguous"
        members = self._meeting.members
        members[self.index] = send.reshape(-1), flat, None
        ends = [flat.size * number // self.size for number in range(self.size + 1)]
        blocks = [slice(*each) for each in pairwise(ends)]
        own = blocks[self.index]
        self._meet()
        join([sent[own] for sent, _, _ in members], flat[own], reduction)
        self._meet()
        for number, (_, reduced, _) in enumerate(members):
            if number != self.index:
                flat[blocks[number]] = reduced[blocks[number]]
        self._meet()

    def reduce_scatter(self, send: Array, into: Array, reduction: Reduction) -> None:
        self._exchange(send, into, _reduce_scatter, reduction)

    def all_to_all(self, send: Array, into: Array) -> None:
        self._exchange(send, into, _all_to_all)

    def permute(self, send: Array, into: Array, to: int | None, source: int | None) -> None:
        self._exchange(send, into, _copy, source)

    def broadcast(self, send: Array, into: Array, root: int) -> None:
        self._exchange(send, into, _copy, root)

    def gather(self, send: Array, into: Array, root: int) -> None:
        self._exchange(send, into, _gather, root)

    def scatter(self, send: Array, into: Array, root: int) -> None:
        self._exchange(send, into, _scatter, root)

    def send(self, send: Array, to: int) -> None:
        self._post.send(self._ranks, self.index, to, send.copy(), self._tag)

    def receive(self, into: Array, source: int | None) -> None:
        array = self._post.receive(self._ranks, self.index, source, self._tag)
        if (array.shape, array.dtype) != (into.shape, into.dtype):
            raise ShardError(
                f"device {self._ranks[self.index]} receives an array of shape {into.shape} of "
                f"{into.dtype}, and was sent one of shape {array.shape} of {array.dtype}"
            )
        into[...] = array

    def reduce(self, send: Array, into: Array, root: int, reduction: Reduction) -> None:
        self._exchange(send, into, _reduce, (root, reduction))


_Write = Callable[[Sequence[Arrays], Sequence[int]], None]
"""Writes the results of the members of these numbers, given what all members have brought."""


def _gather(members: Sequence[Arrays], numbers: Sequence[int]) -> None:
    for number in numbers:
        _, into, root = members[number]
        if root in (None, number):
            np.concatenate([sent for sent, _, _ in members], out=into)
        else:
            into[...] = 0


def _reduce_to_all(members: Sequence[Arrays], numbers: Sequence[int]) -> None:
    first, *others = numbers
    _, reduced, reduction = members[first]
    join((sent for sent, _, _ in members), reduced, reduction)
    for number in others:
        members[number][1][...] = reduced


def _reduce(members: Sequence[Arrays], numbers: Sequence[int]) -> None:
    for number in numbers:
        _, into, (root, reduction) = members[number]
        if number == root:
            join((sent for sent, _, _ in members), into, reduction)
        else:
            into[...] = 0


def _reduce_scatter(members: Sequence[Arrays], numbers: Sequence[int]) -> None:
    for number in numbers:
        _, into, reduction = members[number]
        join((_block(sent, number, len(members)) for sent, _, _ in members), into, reduction)


def _all_to_all(members: Sequence[Arrays], numbers: Sequence[int]) -> None:
    for number in numbers:
        blocks = [_block(sent, number, len(members)) for sent, _, _ in members]
        np.concatenate(blocks, out=members[number][1])


def _copy(members: Sequence[Arrays], numbers: Sequence[int]) -> None:
    """The argument is the number of the member that sends, or `None`."""
    for number in numbers:
        _, into, source = members[number]
        if source is not None:
            into[...] = members[source][0]


def _scatter(members: Sequence[Arrays], numbers: Sequence[int]) -> None:
    for number in numbers:
        _, into, root = members[number]
        into[...] = _block(members[root][0], number, len(members))


def _block(slices_by_member: Array, number: int, count: int) -> Array:
    """A member's block of those along the first dimension."""
    size = len(slices_by_member) // count
    return slices_by_member[number * size : (number + 1) * size]
