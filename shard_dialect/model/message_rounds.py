"""Messages between devices in rounds, in which each device sends one and receives one at most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar


class _Message(Protocol):
    @property
    def sender(self) -> int: ...
    @property
    def receiver(self) -> int: ...


M = TypeVar("M", bound=_Message)


def in_rounds(messages: Iterable[M]) -> list[list[M]]:
    """The messages in as few rounds as the busiest device has messages (König's theorem).

    >>> from shard_dialect.model.windows import Box
    >>> pairs = [(0, 2), (0, 3), (1, 2), (1, 3)]
    >>> rounds = in_rounds([Box(a, b, 0, 0) for a, b in pairs])
    >>> [[(each.sender, each.receiver) for each in messages] for messages in rounds]
    [[(0, 3), (1, 2)], [(0, 2), (1, 3)]]
    """
    sends: dict[int, dict[int, M]] = defaultdict(dict)
    receives: dict[int, dict[int, M]] = defaultdict(dict)
    count = 0
    for message in messages:
        own, other = sends[message.sender], receives[message.receiver]
        free, there = (_first_free(each) for each in (own, other))
        if free != there:  # swap the two rounds along the path that begins at the receiver
            _swap(message.receiver, free, there, sends, receives)
        own[free] = other[free] = message
        count = max(count, free + 1, there + 1)
    rounds: list[list[M]] = [[] for _ in range(count)]
    for by_round in sends.values():
        for number, message in by_round.items():
            rounds[number].append(message)
    return [sorted(each, key=lambda m: (m.sender, m.receiver)) for each in rounds if each]


def in_turns(messages: Sequence[M]) -> list[list[M]] | None:
    """The same by distance, around a ring of as many devices as send, or receive; `None` if more.

    So devices of two stages, one box after the other, need no search.

    >>> from shard_dialect.model.windows import Box
    >>> pairs = [(0, 2), (0, 3), (1, 2), (1, 3)]
    >>> rounds = in_turns([Box(a, b, 0, 0) for a, b in pairs])
    >>> [[(each.sender, each.receiver) for each in messages] for messages in rounds]
    [[(0, 2), (1, 3)], [(0, 3), (1, 2)]]
    """
    senders = Counter(each.sender for each in messages)
    receivers = Counter(each.receiver for each in messages)
    fewest = max((*senders.values(), *receivers.values()), default=0)
    for size in (len(senders), len(receivers)):
        turns: dict[int, list[M]] = defaultdict(list)
        for each in messages:
            turns[(each.receiver - each.sender) % size].append(each)
        if len(turns) == fewest and all(map(_is_round, turns.values())):
            return list(turns.values())
    return None


def _is_round(messages: Sequence[M]) -> bool:
    ends = [{each.sender for each in messages}, {each.receiver for each in messages}]
    return all(len(each) == len(messages) for each in ends)


def _first_free(rounds: Mapping[int, M]) -> int:
    return next(number for number in range(len(rounds) + 1) if number not in rounds)


def _swap(
    receiver: int,
    a: int,
    b: int,
    sends: dict[int, dict[int, M]],
    receives: dict[int, dict[int, M]],
) -> None:
    """Free round `a` of a receiver whose round `b` is free: its messages alternate between both."""
    path, rank, at_receiver, number = [], receiver, True, a
    while True:
        message = (receives if at_receiver else sends)[rank].get(number)
        if message is None:
            break
        path.append((message, number))
        rank = message.sender if at_receiver else message.receiver
        at_receiver, number = not at_receiver, b if number == a else a
    for message, number in path:
        del sends[message.sender][number], receives[message.receiver][number]
    for message, number in path:
        other = b if number == a else a
        sends[message.sender][other] = receives[message.receiver][other] = message
