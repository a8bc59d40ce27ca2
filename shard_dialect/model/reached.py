"""Depth-first search of a graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reached(start: Iterable[T], beside: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """The nodes that are reached from those in `start`, depth first, each once.

    `beside` gives the neighbours of a node. It is called for a node when the next one is asked for.

    >>> list(reached([1, 5], lambda n: [2 * n, n + 1] if n < 4 else []))
    [5, 1, 2, 3, 4, 6]
    """
    waiting, seen = list(start), set[T]()
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            yield each
            waiting += beside(each)
