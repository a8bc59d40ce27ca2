"""Ranks that are threads, and what they say to each other: the part of mpi4py that programs use.

A call of a group is complete when all members have made it. Where all ranks wait for others, they
would for ever.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np

from shard_dialect.proof.written.arrays import Array, Memory, NotKnown, elementwise

PROC_NULL, ANY_SOURCE, ANY_TAG = -2, -1, -1


class Waiting(Exception):
    """All ranks wait for each other."""


class Stopped(Exception):
    """Another rank has raised an error."""


@dataclass
class Meeting:
    """Where ranks leave what others take."""

    alive: int
    changed: threading.Condition = field(default_factory=threading.Condition)
    posts: dict[Hashable, dict[int, Any]] = field(default_factory=lambda: defaultdict(dict))
    mail: dict[Hashable, list[Any]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[int, Callable[[], bool]] = field(default_factory=dict)
    is_over: bool = False

    def until(self, rank: int, is_ready: Callable[[], bool]) -> None:
        """Wait, with the lock held."""
        self.waits[rank] = is_ready
        while not is_ready():
            if self.is_over:
                raise Stopped
            if len(self.waits) == self.alive and not any(each() for each in self.waits.values()):
                self.is_over = True
                self.changed.notify_all()
                raise Waiting
            self.changed.wait(1.0)
        del self.waits[rank]

    def leave(self, *, is_failed: bool) -> None:
        """A rank has ended."""
        with self.changed:
            self.alive -= 1
            self.is_over |= is_failed
            self.changed.notify_all()


def contents(buffer: Any) -> Any:
    """A copy of what is sent: elements, or their bytes."""
    if isinstance(buffer, Memory):
        return contents(buffer.array)
    if isinstance(buffer, (list, tuple)):
        raise NotKnown("a buffer with its type")
    return (buffer.data if isinstance(buffer, Array) else _plain(buffer)).reshape(-1).copy()


def _plain(buffer: Any) -> Any:
    """The memory of an array of numpy, or of a tensor of torch."""
    return buffer.numpy() if hasattr(buffer, "numpy") else np.asarray(buffer)


def receive(buffer: Any, data: Any) -> None:
    """Write what has come; it must fit."""
    array = buffer.array if isinstance(buffer, Memory) else buffer
    target = array.data if isinstance(array, Array) else _plain(array)
    flat = target.reshape(-1)
    if not np.shares_memory(flat, target) and target.size:
        raise NotKnown("a buffer that is not contiguous")
    if flat.size != data.size or flat.dtype != data.dtype:
        raise ValueError(f"a message of {data.size} elements into a buffer of {flat.size}")
    flat[...] = data


@dataclass(frozen=True)
class Reduction:
    """How parts are joined, by a function of numpy's."""

    name: str

    def of(self, parts: Sequence[Any], like: Any) -> Any:
        """The parts joined, as elements of the array `like`."""
        if isinstance(like, Memory):
            raise NotKnown("a sum of bytes")
        if not isinstance(like, Array):
            return reduce(getattr(np, self.name), parts)
        arrays = [Array(like.s, each, like.dtype) for each in parts]
        return reduce(lambda a, b: elementwise(like.s, self.name, a, b), arrays).data


class Done:
    """A request that has been answered."""

    def Test(self) -> bool:
        return True

    def Wait(self, *_: Any) -> bool:
        return True

    wait = Wait
    test = Test

    @staticmethod
    def Waitall(requests: Any, *_: Any) -> None:
        del requests


class Comm:
    """One rank's view of a group: `ranks` are its members in their order."""

    def __init__(self, meeting: Meeting, name: Hashable, ranks: Sequence[int], own: int) -> None:
        self._meeting, self._name, self._ranks, self._own = meeting, name, list(ranks), own
        self.rank, self.size, self._turn = self._ranks.index(own), len(ranks), 0
        self.gathered = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotKnown(f"MPI.Comm.{name}")

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.size

    def position(self, rank: int) -> int:
        """Of a member, by its number in the world."""
        return self._ranks.index(rank)

    def meet(self, what: Any, given: Any) -> list[Any]:
        """What all members give in a call of one kind."""
        self._turn += 1
        key = (self._name, self._turn, what)
        m = self._meeting
        with m.changed:
            posts = m.posts[key]
            posts[self.rank] = given
            m.changed.notify_all()
            m.until(self._own, lambda: len(posts) == self.size)
            return [posts[each] for each in range(self.size)]

    def Barrier(self) -> None:
        self.meet("barrier", None)

    barrier = Barrier

    def Split(self, color: int = 0, key: int = 0) -> Comm | None:
        listed = self.meet("split", (int(color), int(key)))
        own = [at for at, (each, _) in enumerate(listed) if each == color]
        own.sort(key=lambda at: (listed[at][1], at))
        ranks = [self._ranks[at] for at in own]
        return Comm(self._meeting, (self._name, self._turn, color), ranks, self._own)

    def Allgather(self, sent: Any, received: Any) -> None:
        receive(received, np.concatenate(self.meet("allgather", contents(sent))))

    def Alltoall(self, sent: Any, received: Any) -> None:
        listed = self.meet("alltoall", contents(sent))
        parts = [np.split(each, self.size)[self.rank] for each in listed]
        receive(received, np.concatenate(parts))

    def Allreduce(self, sent: Any, received: Any, op: Reduction) -> None:
        listed = self.meet(("allreduce", op), contents(sent))
        receive(received, op.of(listed, received).reshape(-1))

    def Reduce_scatter_block(self, sent: Any, received: Any, op: Reduction) -> None:
        listed = self.meet(("reduce_scatter", op), contents(sent))
        parts = [np.split(each, self.size)[self.rank] for each in listed]
        receive(received, op.of(parts, received).reshape(-1))

    def Reduce(self, sent: Any, received: Any, op: Reduction, root: int = 0) -> None:
        listed = self.meet(("reduce", op, root), contents(sent))
        if self.rank == root:
            receive(received, op.of(listed, received).reshape(-1))

    def Bcast(self, buffer: Any, root: int = 0) -> None:
        own = contents(buffer) if self.rank == root else None
        receive(buffer, self.meet(("bcast", root), own)[root])

    def Gather(self, sent: Any, received: Any, root: int = 0) -> None:
        listed = self.meet(("gather", root), contents(sent))
        if self.rank == root:
            receive(received, np.concatenate(listed))

    def Scatter(self, sent: Any, received: Any, root: int = 0) -> None:
        own = contents(sent) if self.rank == root else None
        whole = self.meet(("scatter", root), own)[root]
        receive(received, np.split(whole, self.size)[self.rank])

    def gather(self, given: Any, root: int = 0) -> Any:
        listed = self.meet(("gather of objects", root), given)
        self.gathered = self.rank == root
        return listed if self.rank == root else None

    def Isend(self, sent: Any, dest: int, tag: int = 0) -> Done:
        if dest != PROC_NULL:
            m = self._meeting
            with m.changed:
                key = (self._name, "mail", self._ranks[dest])
                m.mail[key].append((self.rank, tag, contents(sent), sent))
                m.changed.notify_all()
        return Done()

    def Recv(self, received: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> None:
        if source == PROC_NULL:
            return
        m, key = self._meeting, (self._name, "mail", self._own)

        def fits(letter: Any) -> bool:
            return source in (ANY_SOURCE, letter[0]) and tag in (ANY_TAG, letter[1])

        with m.changed:
            m.until(self._own, lambda: any(map(fits, m.mail[key])))
            letters = [each for each in m.mail[key] if fits(each)]
            if len({each[0] for each in letters}) > 1:
                raise NotKnown("a message of any of several senders")
            letter = letters[0]
            m.mail[key] = [each for each in m.mail[key] if each is not letter]
            if not np.array_equal(contents(letter[3]), letter[2], equal_nan=True):
                raise NotKnown("a message that is written to before it is received")
        receive(received, letter[2])

    def Sendrecv(
        self, sent: Any, dest: int, sendtag: int, received: Any, source: int, recvtag: int
    ) -> None:
        self.Isend(sent, dest, sendtag)
        self.Recv(received, source, recvtag)


_OPS = {
    "SUM": "add", "PROD": "multiply", "MAX": "maximum", "MIN": "minimum", "BAND": "bitwise_and",
    "BOR": "bitwise_or", "BXOR": "bitwise_xor", "LAND": "logical_and", "LOR": "logical_or",
}  # fmt: skip


def library(meeting: Meeting, rank: int, size: int) -> tuple[SimpleNamespace, Comm]:
    """A module `mpi4py.MPI` for one rank, and its world."""
    world = Comm(meeting, "world", range(size), rank)
    listed: dict[str, Any] = {name: Reduction(how) for name, how in _OPS.items()}
    return SimpleNamespace(
        COMM_WORLD=world, Comm=Comm, Op=Reduction, Request=Done, PROC_NULL=PROC_NULL,
        ANY_SOURCE=ANY_SOURCE, ANY_TAG=ANY_TAG, **listed,
    ), world  # fmt: skip
