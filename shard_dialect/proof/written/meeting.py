"""Where ranks that are threads leave what others take.

A call of a group is complete when all members have made it, and a message is taken by the first
receive that asks for it. Where all ranks wait for others, they would for ever.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shard_dialect.proof.written.arrays import Array, Memory, NotKnown, as_array, only, type_of

PROC_NULL, ANY_SOURCE, ANY_TAG = -2, -1, -1


class Waiting(Exception):
    """All ranks wait for each other."""


class Stopped(Exception):
    """Another rank has raised an error."""


@dataclass(eq=False)
class Letter:
    """A message, and the buffer that it is a copy of, if it is one."""

    source: int
    tag: int
    data: Any
    buffer: Any = None
    is_taken: bool = False
    """Whether a receive has asked for it."""

    def check(self) -> None:
        """Raise unless what has come is what the sender's buffer still holds."""
        if self.buffer is not None:
            same = np.array_equal(contents(self.buffer), self.data, equal_nan=True)
            only(same, "a message that is written to before it is received")


@dataclass(eq=False)
class Slot:
    """What a receive asks for, and what it is given."""

    source: int
    tag: int
    letter: Letter | None = None

    def fits(self, letter: Letter) -> bool:
        """Whether this is a message that it asks for."""
        return self.source in (ANY_SOURCE, letter.source) and self.tag in (ANY_TAG, letter.tag)

    @property
    def is_of_any(self) -> bool:
        """Whether it asks for what any rank sends: the one that comes first."""
        return self.source == ANY_SOURCE


@dataclass(frozen=True)
class _Wait:
    is_ready: Callable[[], bool]
    is_patient: bool
    """Whether it goes on only when no other rank can: then all messages are there to choose of."""
    is_kept: bool
    """Whether a library that keeps messages would not wait."""


@dataclass
class Meeting:
    """What has been left, and who waits."""

    alive: int
    changed: threading.Condition = field(default_factory=threading.Condition)
    posts: dict[Hashable, dict[int, Any]] = field(default_factory=lambda: defaultdict(dict))
    mail: dict[Hashable, list[Letter]] = field(default_factory=lambda: defaultdict(list))
    asked: dict[Hashable, list[Slot]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[int, _Wait] = field(default_factory=dict)
    is_over: bool = False

    def until(
        self,
        rank: int,
        is_ready: Callable[[], bool],
        *,
        is_patient: bool = False,
        is_kept: bool = False,
    ) -> None:
        """Wait, with the lock held."""
        own = self.waits[rank] = _Wait(is_ready, is_patient, is_kept)
        if any(each.is_patient for each in self.waits.values()):
            self.changed.notify_all()
        while not self._goes_on(own):
            if self.is_over:
                raise Stopped
            if len(self.waits) == self.alive and not any(
                each.is_ready() for each in self.waits.values()
            ):
                self.is_over = True
                self.changed.notify_all()
                kept = any(each.is_kept for each in self.waits.values())
                only(not kept, "whether messages are kept that no rank has asked for")
                raise Waiting
            self.changed.wait(1.0)
        del self.waits[rank]

    def _goes_on(self, wait: _Wait) -> bool:
        if not wait.is_ready() or not wait.is_patient:
            return wait.is_ready()
        others = (each for each in self.waits.values() if not each.is_patient)
        return len(self.waits) == self.alive and not any(each.is_ready() for each in others)

    def leave(self, *, is_failed: bool) -> None:
        """A rank has ended."""
        with self.changed:
            self.alive -= 1
            self.is_over |= is_failed
            self.changed.notify_all()

    def send(self, box: Hashable, letter: Letter) -> None:
        """Leave a message."""
        with self.changed:
            self.mail[box].append(letter)
            self._deliver(box)
            self.changed.notify_all()

    def ask(self, box: Hashable, slot: Slot) -> None:
        """Ask for a message, before others that ask later."""
        with self.changed:
            self.asked[box].append(slot)
            self._deliver(box)
            self.changed.notify_all()

    def _deliver(self, box: Hashable) -> None:
        for letter in tuple(self.mail[box]):
            slot = next((each for each in self.asked[box] if each.fits(letter)), None)
            if slot is not None and not slot.is_of_any:
                self._give(box, slot, letter)

    def _give(self, box: Hashable, slot: Slot, letter: Letter) -> None:
        self.asked[box].remove(slot)
        self.mail[box].remove(letter)
        slot.letter, letter.is_taken = letter, True

    def complete(self, letter: Letter) -> None:
        """The sender has waited: it may write to the buffer from now on."""
        with self.changed:
            letter.check()
            letter.buffer = None

    def taken(self, rank: int, box: Hashable, slot: Slot) -> Any:
        """The message that was asked for, when it has come."""

        def fitting() -> list[Letter]:
            return [each for each in self.mail[box] if slot.is_of_any and slot.fits(each)]

        with self.changed:
            self.until(
                rank, lambda: slot.letter is not None or bool(fitting()), is_patient=slot.is_of_any
            )
            if slot.letter is None:
                found = fitting()
                several = len({each.source for each in found}) > 1
                only(not several, "a message of any of several senders")
                self._give(box, slot, found[0])
                self._deliver(box)
                self.changed.notify_all()
            assert slot.letter is not None, "it has come"
            slot.letter.check()
            return slot.letter.data


class Sent(np.ndarray[Any, Any]):
    """Elements that are sent, with the type that they have in the sender's buffer."""

    kind: Any = None

    def __array_finalize__(self, of: Any) -> None:
        self.kind = getattr(of, "kind", None)


def contents(buffer: Any) -> Sent:
    """A copy of what is sent: elements, or their bytes."""
    array = array_of(buffer)
    data = array.data if isinstance(array, Array) else _plain(array)
    sent = data.reshape(-1).copy().view(Sent)
    sent.kind = array.dtype
    return sent


def alike(listed: Sequence[Sent], received: Any) -> list[Any]:
    """What members give: equally many elements of the type of the buffer that receives them."""
    kind = array_of(received).dtype
    only(len({each.size for each in listed}) == 1, "buffers of several sizes in one call")
    only(all(each.kind == kind for each in listed), "buffers of several types in one call")
    return [each.view(np.ndarray) for each in listed]


def check_apart(sent: Any, received: Any) -> None:
    """Raise if a call would write to what it reads."""
    one, other = (
        each.data if isinstance(each, Array) else _plain(each)
        for each in map(array_of, (sent, received))
    )
    only(not np.shares_memory(one, other), "a call that receives into what it sends")


def array_of(buffer: Any) -> Any:
    """The array that a buffer is, which may be given with its count and type."""
    if isinstance(buffer, (list, tuple)):
        array, *said = buffer
        known = all(
            each == array.dtype if isinstance(each, np.dtype) else each == array.size
            for each in said
        )
        only(known, "a buffer with another type, or of which a part is sent")
        return array_of(array)
    return buffer.array if isinstance(buffer, Memory) else buffer


def _plain(buffer: Any) -> Any:
    """The memory of an array of numpy, or of a tensor of torch."""
    return buffer.numpy() if hasattr(buffer, "numpy") else np.asarray(buffer)


def receive(buffer: Any, data: Any) -> None:
    """Write what has come; it must fit."""
    array = array_of(buffer)
    target = array.data if isinstance(array, Array) else _plain(array)
    flat = target.reshape(-1)
    if not np.shares_memory(flat, target) and target.size:
        raise NotKnown("a buffer that is not contiguous")
    kind = getattr(data, "kind", None) or array.dtype
    if flat.size != data.size or flat.dtype != data.dtype or kind != array.dtype:
        buffer = f"a buffer of {flat.size} of {array.dtype}"
        raise ValueError(f"a message of {data.size} elements of {kind} into {buffer}")
    flat[...] = data


def make_wild(buffer: Any) -> None:
    """Let a buffer have elements of which nothing is known."""
    x = array_of(buffer)
    if isinstance(x, Array):
        wild = x.s.machine.undefined(type_of(x.dtype, x.shape))
        x.data[...] = as_array(x.s, wild, x.dtype, x.shape).data


def copied(given: Any) -> Any:
    """What another rank gets of an object that is sent."""
    if isinstance(given, (Array, np.ndarray)) or hasattr(given, "clone"):
        return given.clone() if hasattr(given, "clone") else given.copy()
    if isinstance(given, (list, tuple)):
        return type(given)([copied(each) for each in given])
    if isinstance(given, dict):
        return {key: copied(each) for key, each in given.items()}
    is_plain = given is None or isinstance(given, (bool, int, float, complex, str, bytes, slice))
    only(is_plain or isinstance(given, np.generic), f"a {type(given).__name__} that is sent")
    return given
