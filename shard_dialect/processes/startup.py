"""What must be so before a program imports the rest: `begin` is the first that each of them calls.

An interrupt then ends it with a line, as later; and no file that it opens is taken for one of the
standard streams that its parent has closed.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_SCRIPTS = ("shard-opt", "shard-run")


def begin(name: str) -> None:
    """To be called with the module's `__name__`: does nothing where a program imports another's."""
    if name != "__main__" and os.path.basename(next(iter(sys.argv), "")) not in _SCRIPTS:
        return
    # Reading fails from the first one then, and writing to the second.
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def over() -> None:
    """From here on an interrupt is an exception, and told as such."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"error: interrupted\n")
    os._exit(1)
