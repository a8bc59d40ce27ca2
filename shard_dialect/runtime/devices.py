"""Devices in this process: one thread each, meeting at every collective.

The compiled code does not hold the interpreter's lock, so the devices compute at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from shard_dialect.model import Axes, Grid, Reduction
from shard_dialect.runtime.arrays import Array
from shard_dialect.runtime.collectives import Member
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.reductions import join


def run_devices(executable: Executable, inputs: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Run on as many devices as `inputs` has lists of pieces; gives their pieces of the results.

    If one device fails, all stop, and its exception is raised.
    """
    world = _World()
    outputs: list[list[Array]] = [[] for _ in inputs]
    errors: list[BaseException] = []

    def device(rank: int) -> None:
        member = _Device(world, rank)
        try:
            outputs[rank] = executable.run(inputs[rank], member)
        except threading.BrokenBarrierError:
            pass  # another device has failed, and says why
        except BaseException as error:
            errors.append(error)
            world.abort()
        finally:
            member.rest()

    threads = [threading.Thread(target=device, args=(rank,)) for rank in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return outputs


class _World:
    """The meeting points of all groups."""

    def __init__(self) -> None:
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
            for meeting in self._meetings.values():
                meeting.barrier.abort()


class _Meeting:
    """Where the members of one group exchange arrays.

    Two tables in turn: a member that is already at the next collective must not overwrite what
    another still reads of this one, and it cannot be two ahead.
    """

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self.tables: tuple[list[Array], list[Array]] = (
            [np.empty(0)] * size,
            [np.empty(0)] * size,
        )


class _Device(Member):
    def __init__(self, world: _World, rank: int) -> None:
        super().__init__(rank)
        self._world = world
        self._by_ranks: dict[tuple[int, ...], _Group] = {}

    def join(self, grid: Grid, axes: Axes) -> _Group:
        # One for all axes that make the same group: its members take turns at two tables.
        ranks = grid.group_of(self.rank, axes)
        group = _Group(self._world.meeting(ranks), ranks.index(self.rank))
        return self._by_ranks.setdefault(ranks, group)


class _Group:
    def __init__(self, meeting: _Meeting, index: int) -> None:
        self.size = meeting.barrier.parties
        self.index = index
        self._meeting = meeting
        self._turn = 0

    def _exchange(self, send: Array) -> list[Array]:
        """What every member sends."""
        table = self._meeting.tables[self._turn]
        self._turn = 1 - self._turn
        table[self.index] = send.copy()  # the sender may change its buffer as soon as it goes on
        self._meeting.barrier.wait()
        return list(table)

    def all_gather(self, send: Array, into: Array) -> None:
        np.concatenate(self._exchange(send), out=into)

    def all_reduce(self, send: Array, into: Array, reduction: Reduction) -> None:
        join(np.stack(self._exchange(send)), into, reduction)

    def reduce_scatter(self, send: Array, into: Array, reduction: Reduction) -> None:
        join(np.stack([self._own(sent) for sent in self._exchange(send)]), into, reduction)

    def all_to_all(self, send: Array, into: Array) -> None:
        np.concatenate([self._own(sent) for sent in self._exchange(send)], out=into)

    def permute(self, send: Array, into: Array, to: int | None, source: int | None) -> None:
        sent = self._exchange(send)
        if source is not None:
            into[...] = sent[source]

    def broadcast(self, send: Array, into: Array, root: int) -> None:
        into[...] = self._exchange(send)[root]

    def gather(self, send: Array, into: Array, root: int) -> None:
        sent = self._exchange(send)
        if self.index == root:
            np.concatenate(sent, out=into)
        else:
            into[...] = 0

    def scatter(self, send: Array, into: Array, root: int) -> None:
        into[...] = self._own(self._exchange(send)[root])

    def reduce(self, send: Array, into: Array, root: int, reduction: Reduction) -> None:
        sent = self._exchange(send)
        if self.index == root:
            join(np.stack(sent), into, reduction)
        else:
            into[...] = 0

    def _own(self, rows: Array) -> Array:
        """This member's part of those along the first dimension."""
        part = len(rows) // self.size
        return rows[self.index * part : (self.index + 1) * part]
