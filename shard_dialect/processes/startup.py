"""How programs start and end: set up before anything is imported, and the last message.

Each program calls `begin` before it imports anything else. Then an interrupt ends it with one line,
as it does later, and no file that it opens gets the number of a standard stream that its parent has
closed. `message_of` is the message for an exception that ends a program, and `without_notices` lets
XLA write warnings and errors only.

What takes time to import is imported where it is used, or after `begin`: until then an interrupt
would show a traceback.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # that of `typing`, which takes time to import
if TYPE_CHECKING:
    import signal as _signal
    from types import FrameType
else:
    import _signal  # what `signal` wraps in enumerations, whose import takes 10 ms

_SCRIPTS = ("shard-opt", "shard-run", "shard-report", "shard-prove")


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
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _end)


def over() -> None:
    """From here on an interrupt raises an exception, which is reported as such."""
    if _signal.getsignal(_signal.SIGINT) is _end:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    try:
        os.write(2, b"error: interrupted\n")
    finally:
        os._exit(1)


DEBUG = "--debug"
_MOST = 500
"""The most characters of an exception's own message."""


_shows_tracebacks = False


def show_tracebacks() -> None:
    """Show the tracebacks of internal errors from here on."""
    global _shows_tracebacks
    _shows_tracebacks = True


def message_of(error: BaseException) -> str:
    """The message for an exception: a user's mistake as it is, a bug as one line.

    With `--debug` a bug has its traceback. The location, and the pass or stage, are those given to
    `supervise.doing` last.
    """
    from shard_dialect.errors import ShardError, brief, shown
    from shard_dialect.processes.to_parent import what_is_done

    if isinstance(error, ShardError):  # with a cause where a plugin's function has raised it
        cause = error.__cause__
        return _with_traceback(str(error), cause) if cause else str(error)
    if isinstance(error, KeyboardInterrupt):
        return "error: interrupted"
    location, what = what_is_done()
    where = f"{shown(location)}: " if location else ""
    if isinstance(error, MemoryError):
        return f"{where}error: there is not enough memory for {shown(what)}"
    if isinstance(error, RecursionError):
        return f"{where}error: the program is nested too deep for {shown(what)}"
    text = brief(error)[:_MOST]
    line = f"{where}error: internal error in {shown(what)}: {text}"
    if not _shows_tracebacks:
        line = f"{line} ({DEBUG} shows the traceback)"
    return _with_traceback(line, error)


def _with_traceback(line: str, error: BaseException) -> str:
    if not _shows_tracebacks:
        return line
    import traceback  # takes 2 ms, for bugs only

    from shard_dialect.errors import shown

    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return f"{line}\n{shown(lines.rstrip(), chr(10))}"


def without_notices() -> None:
    """Let XLA tell of warnings and errors only; call it before anything of jaxlib is imported.

    It would tell of each device that it finds. What the user has set stays.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
