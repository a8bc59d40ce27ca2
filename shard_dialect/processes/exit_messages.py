"""The messages for exceptions that end a program."""

from __future__ import annotations

from shard_dialect.errors import ShardError, shown
from shard_dialect.processes.supervise import what_is_done

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
    if isinstance(error, ShardError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "error: interrupted"
    location, what = what_is_done()
    where = f"{shown(location)}: " if location else ""
    if isinstance(error, MemoryError):
        return f"{where}error: there is not enough memory for {shown(what)}"
    if isinstance(error, RecursionError):
        return f"{where}error: the program is nested too deep for {shown(what)}"
    text = " ".join(f"{type(error).__name__}: {error}".split())[:_MOST]
    line = f"{where}error: internal error in {shown(what)}: {shown(text)}"
    if not _shows_tracebacks:
        return f"{line} ({DEBUG} shows the traceback)"
    import traceback  # takes 2 ms, for bugs only

    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return f"{line}\n{shown(lines.rstrip(), chr(10))}"
