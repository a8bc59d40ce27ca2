"""How long a search may go on: for some seconds, for a number of plans, or until the user stops it.

    whole = Budget(60.0)
    whole.part(30.0)        ends 30 seconds from now, or with the whole

What takes long looks at `is_over` again and again, so that Ctrl-C is noticed everywhere.
"""

from __future__ import annotations

import time
from math import inf


class Budget:
    """The time that is left, and the number of plans that may still be tried."""

    def __init__(
        self, seconds: float = inf, plans: int | None = None, whole: Budget | None = None
    ) -> None:
        self.seconds = seconds
        self.plans = plans
        self._whole = whole
        self._begin = time.monotonic()
        self.is_stopped = False

    def part(self, seconds: float) -> Budget:
        """A part of this budget, in time."""
        return Budget(seconds, whole=self)

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
        """Whether no time is left."""
        return not self.left

    def ends_after(self, plans: int) -> bool:
        """Whether it is over when so many plans were tried."""
        return self.is_over or (self.plans is not None and plans >= self.plans)

    @property
    def spent(self) -> float:
        """The seconds since its begin."""
        return time.monotonic() - self._begin
