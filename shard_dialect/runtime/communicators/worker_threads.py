"""Threads that run one piece of work after another: starting one takes longer than a collective."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

Work = Callable[[], None]


class _Worker:
    """A daemon, so that the interpreter does not wait for a thread that still computes."""

    def __init__(self) -> None:
        self._begin = threading.Lock()
        self._begin.acquire()
        self._work: tuple[Work, threading.Lock] | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def give(self, work: Work, running: threading.Lock) -> None:
        """Run `work`, and release `running` after it. The worker must be idle."""
        self._work = work, running
        self._begin.release()

    def _run(self) -> None:
        while True:
            self._begin.acquire()
            assert self._work is not None, "it was given before"
            work, running = self._work
            self._work = None
            try:
                work()
                _idle.append(self)  # not if it has raised, since the thread ends then
            finally:
                del work  # and what it holds, which an idle thread does not need
                running.release()


_idle: list[_Worker] = []
os.register_at_fork(after_in_child=_idle.clear)  # a child has none of its parent's threads


def begin(work: Work) -> threading.Lock:
    """Run `work`, which raises nothing, on a thread; the lock that is returned is free after it.

    Raises `RuntimeError` where no thread can be started.
    """
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    running = threading.Lock()
    running.acquire()
    worker.give(work, running)
    return running
