"""The part of mpi4py that programs of ranks use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np

from shard_dialect.proof.written.arrays import Array, Memory, NotKnown, elementwise, only
from shard_dialect.proof.written.meeting import (
    ANY_SOURCE,
    ANY_TAG,
    PROC_NULL,
    Letter,
    Meeting,
    Slot,
    alike,
    array_of,
    check_apart,
    contents,
    copied,
    make_wild,
    receive,
)

IN_PLACE = object()


@dataclass(frozen=True)
class Reduction:
    """How parts are joined, by a function of numpy's."""

    name: str

    def of(self, parts: Sequence[Any], like: Any) -> Any:
        """The parts joined, as elements of the array `like`."""
        only(not isinstance(like, Memory), "a sum of bytes")
        like = array_of(like)
        if not isinstance(like, Array):
            return reduce(getattr(np, self.name), parts)
        arrays = [Array(like.s, each, like.dtype) for each in parts]
        return reduce(lambda a, b: elementwise(like.s, self.name, a, b), arrays).data

    def of_objects(self, parts: Sequence[Any]) -> Any:
        """Arrays or numbers joined."""
        return copied(reduce(getattr(np, self.name), parts))


SUM = Reduction("add")


class Request:
    """What is under way: a message that was sent, or one that is to come."""

    def __init__(self, finish: Callable[[], Any] = lambda: None, *, is_sent: bool = False) -> None:
        self._finish, self._is_sent, self._is_done, self._result = finish, is_sent, False, None

    def wait(self, *_: Any) -> Any:
        if not self._is_done:
            self._is_done, self._result = True, self._finish()
        return self._result

    def Wait(self, *_: Any) -> bool:
        self.wait()
        return True

    def Test(self) -> bool:
        only(self._is_sent or self._is_done, "whether a message has come")
        return self.Wait()

    is_completed = Test

    @staticmethod
    def waitall(requests: Any, *_: Any) -> list[Any]:
        return [each.wait() for each in requests]

    Waitall = waitall


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
        check_apart(sent, received)
        listed = alike(self.meet("allgather", contents(sent)), received)
        receive(received, np.concatenate(listed))

    def Alltoall(self, sent: Any, received: Any) -> None:
        check_apart(sent, received)
        listed = alike(self.meet("alltoall", contents(sent)), received)
        parts = [np.split(each, self.size)[self.rank] for each in listed]
        receive(received, np.concatenate(parts))

    def Allreduce(self, sent: Any, received: Any, op: Reduction = SUM) -> None:
        if sent is not IN_PLACE:
            check_apart(sent, received)
        given = contents(received if sent is IN_PLACE else sent)
        listed = alike(self.meet(("allreduce", op), given), received)
        receive(received, op.of(listed, received).reshape(-1))

    def Reduce_scatter_block(self, sent: Any, received: Any, op: Reduction = SUM) -> None:
        check_apart(sent, received)
        listed = alike(self.meet(("reduce_scatter", op), contents(sent)), received)
        parts = [np.split(each, self.size)[self.rank] for each in listed]
        receive(received, op.of(parts, received).reshape(-1))

    def Reduce(self, sent: Any, received: Any, op: Reduction = SUM, root: int = 0) -> None:
        sent = received if sent is IN_PLACE and self.rank == root else sent
        listed = self.meet(("reduce", op, root), contents(sent))
        if self.rank == root:
            receive(received, op.of(alike(listed, received), received).reshape(-1))

    def Bcast(self, buffer: Any, root: int = 0) -> None:
        own = contents(buffer) if self.rank == root else None
        receive(buffer, self.meet(("bcast", root), own)[root])

    def Gather(self, sent: Any, received: Any, root: int = 0) -> None:
        listed = self.meet(("gather", root), contents(sent))
        if self.rank == root:
            receive(received, np.concatenate(alike(listed, received)))

    def Scatter(self, sent: Any, received: Any, root: int = 0) -> None:
        own = contents(sent) if self.rank == root else None
        whole = self.meet(("scatter", root), own)[root]
        receive(received, np.split(whole, self.size)[self.rank])

    def gather(self, given: Any, root: int = 0) -> Any:
        listed = self.meet(("gather of objects", root), copied(given))
        self.gathered = self.rank == root
        return listed if self.rank == root else None

    def allgather(self, given: Any) -> list[Any]:
        return copied(self.meet("allgather of objects", copied(given)))

    def alltoall(self, given: Sequence[Any]) -> list[Any]:
        listed = self.meet("alltoall of objects", copied(given))
        return [copied(each[self.rank]) for each in listed]

    def allreduce(self, given: Any, op: Reduction = SUM) -> Any:
        return op.of_objects(self.meet(("allreduce of objects", op), copied(given)))

    def reduce(self, given: Any, op: Reduction = SUM, root: int = 0) -> Any:
        listed = self.meet(("reduce of objects", op, root), copied(given))
        return op.of_objects(listed) if self.rank == root else None

    def bcast(self, given: Any, root: int = 0) -> Any:
        own = copied(given) if self.rank == root else None
        return copied(self.meet(("bcast of objects", root), own)[root])

    def scatter(self, given: Any, root: int = 0) -> Any:
        own = copied(given) if self.rank == root else None
        return copied(self.meet(("scatter of objects", root), own)[root][self.rank])

    def _box(self, rank: int, what: str) -> Hashable:
        """Where a member finds its messages."""
        return self._name, what, self._ranks[rank]

    def _sent(self, what: str, dest: int, tag: int, data: Any, buffer: Any = None) -> Letter:
        letter = Letter(self.rank, tag, data, buffer, is_taken=dest == PROC_NULL)
        if dest != PROC_NULL:
            self._meeting.send(self._box(dest, what), letter)
        return letter

    def _wait_for(self, letter: Letter) -> None:
        """Until it is taken: a library may keep messages, and may not."""
        m = self._meeting
        with m.changed:
            m.until(self._own, lambda: letter.is_taken, is_kept=True)

    def _asked(self, what: str, source: int, tag: int) -> Callable[[], Any]:
        """Ask for a message; what gives it when it has come."""
        slot, box = Slot(source, tag), self._box(self.rank, what)
        if source == PROC_NULL:
            return lambda: None
        self._meeting.ask(box, slot)
        return lambda: self._meeting.taken(self._own, box, slot)

    def Isend(self, sent: Any, dest: int, tag: int = 0) -> Request:
        letter = self._sent("elements", dest, tag, contents(sent), sent)
        return Request(lambda: self._meeting.complete(letter), is_sent=True)

    def Send(self, sent: Any, dest: int, tag: int = 0) -> None:
        self._wait_for(self._sent("elements", dest, tag, contents(sent)))

    Ssend = Send

    def Recv(self, received: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> None:
        data = self._asked("elements", source, tag)()
        if data is not None:
            receive(received, data)

    def Irecv(self, received: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        only(source != ANY_SOURCE, "a message of any rank that is received later")
        if source == PROC_NULL:
            return Request()
        make_wild(received)
        before, finish = contents(received), self._asked("elements", source, tag)

        def written() -> None:
            data = finish()
            same = np.array_equal(contents(received), before, equal_nan=True)
            only(same, "a buffer that is written to before its message has come")
            receive(received, data)

        return Request(written)

    def Sendrecv(
        self,
        sent: Any,
        dest: int,
        sendtag: int = 0,
        received: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        *,
        recvbuf: Any = None,
    ) -> None:
        received = recvbuf if received is None else received
        check_apart(sent, received)
        self._sent("elements", dest, sendtag, contents(sent))
        self.Recv(received, source, recvtag)

    def isend(self, given: Any, dest: int, tag: int = 0) -> Request:
        self._sent("objects", dest, tag, copied(given))
        return Request(is_sent=True)

    def send(self, given: Any, dest: int, tag: int = 0) -> None:
        self._wait_for(self._sent("objects", dest, tag, copied(given)))

    def irecv(self, buf: None = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        only(source != ANY_SOURCE, "a message of any rank that is received later")
        return Request(self._asked("objects", source, tag))

    def recv(self, buf: None = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Any:
        return self._asked("objects", source, tag)()

    def sendrecv(
        self,
        given: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: None = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Any:
        self._sent("objects", dest, sendtag, copied(given))
        return self.recv(recvbuf, source, recvtag)


_OPS = {
    "SUM": "add", "PROD": "multiply", "MAX": "maximum", "MIN": "minimum", "BAND": "bitwise_and",
    "BOR": "bitwise_or", "BXOR": "bitwise_xor", "LAND": "logical_and", "LOR": "logical_or",
}  # fmt: skip
_TYPES = {
    "FLOAT": "float32", "DOUBLE": "float64", "INT": "int32", "LONG": "int64", "BOOL": "bool",
}  # fmt: skip


def library(meeting: Meeting, rank: int, size: int) -> tuple[SimpleNamespace, Comm]:
    """A module `mpi4py.MPI` for one rank, and its world."""
    world = Comm(meeting, "world", range(size), rank)
    listed: dict[str, Any] = {name: Reduction(how) for name, how in _OPS.items()}
    listed |= {name: np.dtype(dtype) for name, dtype in _TYPES.items()}
    return SimpleNamespace(
        COMM_WORLD=world, Comm=Comm, Op=Reduction, Request=Request, PROC_NULL=PROC_NULL,
        ANY_SOURCE=ANY_SOURCE, ANY_TAG=ANY_TAG, IN_PLACE=IN_PLACE, **listed,
    ), world  # fmt: skip
