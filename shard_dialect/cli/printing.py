"""The input and output of both programs: errors and warnings in readable form.

Start-up imports this before the bindings, so it imports none of them.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from shard_dialect.errors import ShardError, ShardWarning, aside, say
from shard_dialect.processes.atomic_files import Output
from shard_dialect.processes.startup import message_of

STDIN = STDOUT = "-"


def guarded(program: Callable[[], int]) -> int:
    """Run `program`; an exception becomes one line on stderr and exit status 1."""
    try:
        with warnings_to(print_warning):
            status = _status_of(program)
            flush_output()
            return status
    except BrokenPipeError:
        leave_output()
    except (Exception, KeyboardInterrupt) as error:
        say(message_of(error))
    return 1


def _status_of(program: Callable[[], int]) -> int:
    """The exit status of `program`, also if `argparse` ends it, as after `--help`."""
    try:
        return program()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


def write_output(data: str | bytes) -> None:
    """Write all of it to standard output. Raises `ShardError`, unless the reader has closed it."""
    if sys.stdout is None:
        raise ShardError("cannot write to standard output: it is closed")
    with aside(is_result=True), _report_output_errors():
        if isinstance(data, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
        else:
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(data.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()


def write_to(path: str, data: str | bytes) -> None:
    """Write it to a file, or as `write_output` does to `-`. Raises `ShardError`."""
    if path == STDOUT:
        write_output(data)
    else:
        content = data.encode() if isinstance(data, str) else data
        Output(path).replace(lambda file: file.write(content))


def write_page(text: str) -> None:
    """As `write_output`, for people: at a terminal, no line is longer than that is wide."""
    if sys.stdout is not None and sys.stdout.isatty():
        import shutil

        columns = shutil.get_terminal_size().columns
        text = "".join(f"{fitted(line, columns)}\n" for line in text.splitlines())
    write_output(text)


def fitted(line: str, columns: int) -> str:
    """A line of prose wrapped to this width, or a row of a table cut at it.

    >>> print(fitted("  'dot' op sums over dimension 1, which is split", 30))
      'dot' op sums over dimension
          1, which is split
    >>> fitted("all_reduce  [0]  4x16xf32  256", 20)
    'all_reduce  [0]  4x…'
    """
    if len(line) <= columns:
        return line
    words = line.lstrip()
    if "  " in words:
        return f"{line[: columns - 1]}…"
    import textwrap

    indent = line[: len(line) - len(words)]
    more = f"{indent}    "
    return textwrap.fill(words, columns, initial_indent=indent, subsequent_indent=more)


def flush_output() -> None:
    """Flush standard output. Raises as `write_output` does."""
    if sys.stdout is not None:
        with _report_output_errors():
            sys.stdout.flush()


@contextmanager
def _report_output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        leave_output()
        reason = (error.strerror or str(error)).lower()
        raise ShardError(f"cannot write to standard output: {reason}") from None


def leave_output() -> None:
    """Discard further output, since its reader (such as `head`) has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_warning(warning: ShardWarning) -> None:
    """Print a warning on stderr."""
    say(warning)


@contextmanager
def warnings_to(receive: Callable[[ShardWarning], None]) -> Iterator[None]:
    """Pass every `ShardWarning` to `receive`; other warnings are shown as before."""
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
