"""What is said of an exception that ends a program."""

from __future__ import annotations

from shard_dialect.errors import ShardError, shown
from shard_dialect.processes.supervise import what_is_done

DEBUG = "--debug"
_MOST = 500
"""Characters of an exception's own words."""


_shows_tracebacks = False


def show_tracebacks() -> None:
    """From here on."""
    global _shows_tracebacks
    _shows_tracebacks = True


def told(error: BaseException) -> str:
    """A user's mistake as it is; of what is a bug of ours a line, or with `--debug` its traceback.

    The place, and the pass or stage, are those that were told last (`supervise.doing`).
    """
    if isinstance(error, ShardError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "error: interrupted"
    place, what = what_is_done()
    where = f"{shown(place)}: " if place else ""
    if isinstance(error, MemoryError):
        return "error: there is not enough memory for the tensors of this program"
    if isinstance(error, RecursionError):
        return f"{where}error: the program is nested too deep for {shown(what)}"
    said = " ".join(f"{type(error).__name__}: {error}".split())[:_MOST]
    line = f"{where}error: internal error in {shown(what)}: {shown(said)}"
    if not _shows_tracebacks:
        return f"{line} ({DEBUG} shows the traceback)"
    import traceback  # takes 2 ms, for bugs only

    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return f"{line}\n{shown(lines.rstrip(), chr(10))}"
