"""Set up a program before it imports anything else: each program calls `begin` first.

Then an interrupt ends it with one line, as it does later. And no file that it opens gets the number
of a standard stream that its parent has closed.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_SCRIPTS = ("shard-opt", "shard-run", "shard-report")


def begin(name: str) -> None:
    """Set up the program with this `__name__`; do nothing if another program imports it."""
    if name != "__main__" and os.path.basename(next(iter(sys.argv), "")) not in _SCRIPTS:
        return
    # Then reading from the first one fails, and writing to the second.
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def over() -> None:
    """From here on an interrupt raises an exception, which is reported as such."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"error: interrupted\n")
    os._exit(1)
