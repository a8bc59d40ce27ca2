"""Devices in this process: one thread each, synchronized at every collective.

The compiled code does not hold the interpreter's lock, so the devices compute at the same time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from shard_dialect.codegen.array_types import Array
from shard_dialect.errors import ShardError
from shard_dialect.model import Axes, Grid, Reduction
from shard_dialect.runtime.communicators.announce_failures import AnnouncingCommunicator
from shard_dialect.runtime.communicators.group import Group
from shard_dialect.runtime.communicators.join_shards import join
from shard_dialect.runtime.communicators.mailbox import Mailbox
from shard_dialect.runtime.communicators.perform_collectives import Member
from shard_dialect.runtime.executable import Executable

_COPIED = 1 << 16
"""The number of bytes up to which copying is faster than another synchronization."""
_GRACE = 1.0
"""The seconds that devices have to stop once one has failed: their code may be in a loop."""


def run_devices(executable: Executable, inputs: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Run as many devices as `inputs` has lists of shards; return their shards of the results.

    If one device fails, all stop, and the first exception is raised.
    """

    def run(device: ThreadDevice, stop: Callable[[BaseException], None]) -> list[Array]:
        return executable.run(inputs[device.rank], AnnouncingCommunicator(device, stop))

    return in_threads(len(inputs), run)


def in_threads(
    size: int, run: Callable[[ThreadDevice, Callable[[BaseException], None]], list[Array]]
) -> list[list[Array]]:
    """What `run` returns on each device, called in a thread with the device.

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

    # Daemons: the interpreter does not wait for threads that still compute.
    threads = [threading.Thread(target=device, args=(rank,), daemon=True) for rank in range(size)]
    try:
        _start(threads)
        _wait(threads, errors)
    except BaseException:
        world.abort()
        raise
    if errors:
        raise errors[0]
    return outputs


def _start(threads: Sequence[threading.Thread]) -> None:
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        message = f"cannot start a thread for each of {len(threads)} devices: {error}"
        raise ShardError(message) from None


def _wait(threads: Sequence[threading.Thread], errors: Sequence[BaseException]) -> None:
    """Wait for all threads, or for some time after an error."""
    deadline: float | None = None
    for thread in threads:
        while thread.is_alive():
            if errors and deadline is None:
                deadline = time.monotonic() + _GRACE
            thread.join(0.05 if deadline is None else max(0.0, deadline - time.monotonic()))
            if deadline is not None and time.monotonic() >= deadline:
                return


class _World:
    """The meeting points of all groups, and the mailbox of their members."""

    def __init__(self, size: int) -> None:
        self.post = Mailbox(size)
        self._meetings: dict[tuple[int, ...], _Meeting] = {}
        self._lock = threading.Lock()
        self._aborted = False

    def meeting(self, ranks: tuple[int, ...]) -> _Meeting:
        with self._lock:
            if ranks not in self._meetings:
                self._meetings[ranks] = _Meeting(len(ranks))
                if self._aborted:
                    self._meetings[ranks].barrier.abort()
            return self._meetings[ranks]

    def abort(self) -> None:
        with self._lock:
            self._aborted = True
            self.post.abort()
            for meeting in self._meetings.values():
                meeting.barrier.abort()


class _Meeting:
    """Where the members of one group exchange arrays.

    It has two tables, used in turn: a member at the next collective must not overwrite what another
    still reads of this one, and it cannot be two ahead.
    """

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self.tables: tuple[list[Array], list[Array]] = (
            [np.empty(0)] * size,
            [np.empty(0)] * size,
        )


class ThreadDevice(Member):
    """One device, which a thread runs."""

    def __init__(self, world: _World, rank: int) -> None:
        super().__init__(rank)
        self._world = world
        self._by_ranks: dict[tuple[tuple[int, ...], int], _Group] = {}

    def join(self, grid: Grid, axes: Axes) -> Group:
        """As `Member.join`."""
        return self.group_of(grid.group_of(self.rank, axes))

    def group_of(self, ranks: tuple[int, ...], tag: int = 0) -> Group:
        """The group of these devices, of which this is one; its messages have the tag."""
        # Axes that give the same group share one meeting, for its members to alternate its tables.
        group = _Group(self._world.meeting(ranks), ranks, self.rank, self._world.post, tag)
        return self._by_ranks.setdefault((ranks, tag), group)


class _Group:
    def __init__(
        self, meeting: _Meeting, ranks: tuple[int, ...], rank: int, post: Mailbox, tag: int = 0
    ) -> None:
        self.size = len(ranks)
        self.index = ranks.index(rank)
        self._ranks = ranks
        self._meeting = meeting
        self._post = post
        self._tag = tag
        self._turn = 0

    @contextmanager
    def _exchange(self, send: Array) -> Iterator[list[Array]]:
        """Every member's array, for the `with` body.

        A sender may change its buffer as soon as it goes on. So a small array is copied, and with a
        large one, which has the same size on all, the sender waits until all have read it.
        """
        table = self._meeting.tables[self._turn]
        self._turn = 1 - self._turn
        is_copied = send.nbytes <= _COPIED
        table[self.index] = send.copy() if is_copied else send
        self._meet()
        yield list(table)
        if not is_copied:
            self._meet()

    def _meet(self) -> None:
        with self._post.at_meeting(self._ranks[self.index], self._meeting.barrier):
            self._meeting.barrier.wait()

    def all_gather(self, send: Array, into: Array) -> None:
        with self._exchange(send) as sent:
            np.concatenate(sent, out=into)

    def all_reduce(self, send: Array, into: Array, reduction: Reduction) -> None:
        with self._exchange(send) as sent:
            join(sent, into, reduction)

    def reduce_scatter(self, send: Array, into: Array, reduction: Reduction) -> None:
        with self._exchange(send) as sent:
            join(map(self._own, sent), into, reduction)

    def all_to_all(self, send: Array, into: Array) -> None:
        with self._exchange(send) as sent:
            np.concatenate([self._own(each) for each in sent], out=into)

    def permute(self, send: Array, into: Array, to: int | None, source: int | None) -> None:
        with self._exchange(send) as sent:
            if source is not None:
                into[...] = sent[source]

    def broadcast(self, send: Array, into: Array, root: int) -> None:
        with self._exchange(send) as sent:
            into[...] = sent[root]

    def gather(self, send: Array, into: Array, root: int) -> None:
        with self._exchange(send) as sent:
            if self.index == root:
                np.concatenate(sent, out=into)
            else:
                into[...] = 0

    def scatter(self, send: Array, into: Array, root: int) -> None:
        with self._exchange(send) as sent:
            into[...] = self._own(sent[root])

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
        with self._exchange(send) as sent:
            if self.index == root:
                join(sent, into, reduction)
            else:
                into[...] = 0

    def _own(self, slices_by_member: Array) -> Array:
        """This member's block of those along the first dimension."""
        size = len(slices_by_member) // self.size
        return slices_by_member[self.index * size : (self.index + 1) * size]
