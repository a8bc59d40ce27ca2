"""What both programs do at their edges: errors and warnings as people read them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from shard_dialect.errors import ShardError, ShardWarning, say, told


def guarded(program: Callable[[], int]) -> int:
    """Run `program`; a user's mistake becomes one line on stderr and exit status 1."""
    try:
        with warnings_to(print_warning):
            return program()
    except (ShardError, MemoryError) as error:
        say(told(error))
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        leave_output()
        return 1


def leave_output() -> None:
    """The reader of our output has gone, as `head` does: what is left to write has no reader."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_warning(warning: ShardWarning) -> None:
    """Print a warning where people read it."""
    say(warning)


@contextmanager
def warnings_to(receive: Callable[[ShardWarning], None]) -> Iterator[None]:
    """Hand every `ShardWarning` to `receive`; other warnings are shown as they were."""
    show_other = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if isinstance(message, ShardWarning):
            receive(message)
        else:
            show_other(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.simplefilter("always", ShardWarning)
        warnings.showwarning = show
        yield
