"""How long a search may go on: for some seconds, for a number of plans, or until the user stops it.

    whole = Budget(60.0)
    whole.part(0.5)         ends 30 seconds from now, or with the whole

What takes long looks at `is_over` again and again, so that Ctrl-C is noticed everywhere.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil, inf
from types import FrameType

from shard_dialect.errors import say


class Budget:
    """The time that is left, and the number of plans that may still be tried."""

    def __init__(
        self, seconds: float = inf, plans: int | None = None, whole: Budget | None = None
    ) -> None:
        self.seconds = seconds
        self.plans = plans
        self._whole = whole
        self._begin = time.monotonic()
        self.tried = 0
        self.is_stopped = False

    def part(self, share: float) -> Budget:
        """A part of this budget: a share of the time and of the plans that are left."""
        plans = None if self.plans_left == inf else ceil(share * self.plans_left)
        return Budget(share * self.left, plans, self)

    def count(self) -> None:
        """A plan was tried."""
        self.tried += 1
        if self._whole:
            self._whole.count()

    @property
    def plans_left(self) -> float:
        """The number of plans that may still be tried."""
        own = inf if self.plans is None else self.plans - self.tried
        return max(0, min(own, self._whole.plans_left if self._whole else inf))

    @property
    def outermost(self) -> Budget:
        """The budget that this one is a part of, or itself."""
        return self._whole.outermost if self._whole else self

    def stop(self) -> None:
        """End it now, and what it is a part of."""
        self.outermost.is_stopped = True

    @property
    def left(self) -> float:
        """The seconds that are left; none if it is over."""
        whole = self._whole.left if self._whole else inf
        own = 0.0 if self.is_stopped else self._begin + self.seconds - time.monotonic()
        return max(0.0, min(own, whole))

    @property
    def is_over(self) -> bool:
        """Whether no time is left, or no plan may be tried any more."""
        return not self.left or not self.plans_left

    @property
    def spent(self) -> float:
        """The seconds since its begin."""
        return time.monotonic() - self._begin


@contextmanager
def stopped_by_signal(budget: Budget, has_result: Callable[[], bool]) -> Iterator[None]:
    """Let Ctrl-C end the budget, and not the program, once there is a result."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        if not has_result() and callable(before):
            before(number, frame)
        say("note: --auto: stops, with the best plan so far; Ctrl-C again ends the program")
        budget.stop()

    before = signal.signal(signal.SIGINT, stop)
    if hasattr(signal, "pthread_sigmask"):  # what came before waits (`processes/supervise.py`)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
