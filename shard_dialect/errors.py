"""Diagnostics for the user: the base class of every error that a user can cause, and warnings.

`opt` and `run` print a `ShardError` as `file:line:col: error: message`, with its notes below, and
exit with status 1. Our own invariants are `assert`s with a message: a failure is a bug, and is
reported as an internal error (`processes/startup.py`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Severity = Literal["error", "warning", "remark", "note"]


def shown(text: str, kept: str = "") -> str:
    r"""Return the text with characters that are not printable escaped, except those in `kept`.

    Names come from files, so they may hold sequences that move the cursor of a terminal, or change
    the direction of writing.

    >>> print(shown("a\nb\x1b[2J\u202e é"))
    a\nb\x1b[2J\u202e é
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode()
        for each in text
    )


def first_line_of(error: BaseException) -> str:
    """The first line of an exception's message, which may show a program below."""
    return str(error).strip().partition("\n")[0]


_SHOWING_IR = ("see current operation", "the difference:")
"""The beginnings of messages with several lines; all others are printed on one line."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message and its location, with notes that add to it.

    `location` is `file:line:col`, or `None` if the error is in no file (but in a flag, say).

    >>> print(Diagnostic("error", "two grids", "a.mlir:4:1", (note("the first", "a.mlir:1:1"),)))
    a.mlir:4:1: error: two grids
    a.mlir:1:1: note: the first
    """

    severity: Severity
    message: str
    location: str | None = None
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        prefix = f"{shown(self.location)}: " if self.location else ""
        message = shown(self.message, "\n\t" if self.message.startswith(_SHOWING_IR) else "")
        return "\n".join([f"{prefix}{self.severity}: {message}", *map(str, self.notes)])


def note(message: str, location: str | None = None) -> Diagnostic:
    """Return a note that adds to an error or a warning, perhaps at another location."""
    return Diagnostic("note", message, location)


class ShardError(Exception):
    """A mistake in the user's input: a message in lower case, and its location.

    `further` are the errors found with it, as MLIR's verifier finds one per function.
    """

    is_of_option = False
    """Whether it is about an option, and so at no place in a file."""

    def __init__(
        self,
        message: str,
        location: str | None = None,
        notes: Sequence[Diagnostic] = (),
        further: Sequence[Diagnostic] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.notes = tuple(notes)
        self.further = tuple(further)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """This error as a diagnostic, then the further ones."""
        return Diagnostic("error", self.message, self.location, self.notes), *self.further

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))

    def at(self, location: str | None) -> ShardError:
        """The same error with a location, unless it already has a (more exact) one."""
        if self.location or self.is_of_option:
            return self
        return ShardError(self.message, location, self.notes, self.further)


@contextmanager
def of_option(option: str) -> Iterator[None]:
    """Have errors raised in the `with` block that are at no place in a file begin with an option.

    >>> with of_option("--what-if=x=[[7]]"):
    ...     raise ShardError("there is no axis 7")
    Traceback (most recent call last):
    shard_dialect.errors.ShardError: error: --what-if=x=[[7]]: there is no axis 7
    """
    try:
        yield
    except ShardError as error:
        if error.location:
            raise
        message = f"{option}: {error.message}"
        named = ShardError(message, None, error.notes, error.further)
        named.is_of_option = True
        raise named from None


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "", prefix: str = "") -> str:
    """The end of an error about an unknown name: the nearest of the known ones, or `otherwise`.

    >>> did_you_mean("propgate", ["partition", "propagate"])
    ": did you mean 'propagate'?"
    >>> did_you_mean("x", ["partition", "propagate"], ": there is no such pass")
    ': there is no such pass'
    """
    import difflib  # for misspelt names only

    similar = difflib.get_close_matches(str(name), list(known), n=1)
    return f": did you mean '{prefix}{similar[0]}'?" if similar else otherwise


def check_one_of(what: str, given: object, known: Sequence[str]) -> None:
    """Raise a `ShardError` unless `given` is one of these names.

    >>> check_one_of("the form", "lokal", ["propagated", "local"])
    Traceback (most recent call last):
    shard_dialect.errors.ShardError: error: the form 'lokal' is none of propagated, local: did you \
mean 'local'?
    """
    if given not in known:
        nearest = did_you_mean(given, known)
        raise ShardError(f"{what} {given!r} is none of {', '.join(known)}{nearest}")


def listed(what: str, given: object, example: str) -> tuple[Any, ...]:
    """The elements of a list. Raises a `ShardError` for what is none, which a text is not, either.

    >>> listed("the shape", 8, "(2, 4)")
    Traceback (most recent call last):
    shard_dialect.errors.ShardError: error: the shape is 8: give a list, as (2, 4)
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ShardError(f"{what} is {given!r}: give a list, as {example}")
    return tuple(given)


def number_of(count: int, noun: str) -> str:
    """A number with its noun.

    >>> number_of(1, "device"), number_of(1024, "device")
    ('1 device', '1,024 devices')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def brief(error: BaseException) -> str:
    """The class and the message of an exception, in one line."""
    try:
        text = str(error)
    except Exception:  # of a user's class
        text = ""
    name = type(error).__name__
    return shown(" ".join(f"{name}: {text}".split()) if text.strip() else name)


def value_text(value: object) -> str:
    """A value as Python writes it, if that is short, in one line.

    >>> value_text([1, 2]), value_text("x" * 100)
    ('[1, 2]', "a value of type 'str'")
    """
    try:
        text = repr(value)
    except Exception:  # of a user's class
        text = ""
    return shown(text) if 0 < len(text) <= 60 else f"a value of type '{type(value).__name__}'"


def raised_in(error: BaseException) -> tuple[Diagnostic, ...]:
    """A note about the innermost line outside of this package that raised `error`, if any."""
    import traceback  # takes 2 ms, for failures only

    own = str(Path(__file__).parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((own, "<")) and "importlib" not in frame.filename:
            return (Diagnostic("note", "raised here", f"{frame.filename}:{frame.lineno}:1"),)
    return ()


FAILURES = (Exception, SystemExit, GeneratorExit)
"""All that a user's code may end with, but for Ctrl-C."""


def cannot(do: str, path: str, error: OSError) -> ShardError:
    """Return the error for the system's refusal to `do` (read, write) the file at `path`."""
    return ShardError(f"cannot {do} '{path}': {(error.strerror or str(error)).lower()}")


_Aside = Callable[[bool], AbstractContextManager[None]]


def _nothing(_: bool) -> AbstractContextManager[None]:
    return nullcontext()


_aside: _Aside = _nothing


def aside(*, is_result: bool = False) -> AbstractContextManager[None]:
    """Within the `with` block, to print, no progress is shown (`processes/progress.py`)."""
    return _aside(is_result)


def let_go_aside(how: _Aside) -> None:
    """Set what `aside` gives, in a process whose progress is shown."""
    global _aside
    _aside = how


def say(what: object) -> None:
    """Print a line, or lines, to stderr in one write: other ranks and launchers write there too."""
    if sys.stderr is None:
        return
    with aside(), suppress(OSError):  # stderr is closed
        sys.stderr.write(f"{what}\n")
        sys.stderr.flush()


def flush() -> None:
    """Write buffered output, as far as its readers still exist."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):
            stream.flush()


class ShardWarning(UserWarning):
    """Something that the user should know about and that does not stop the run."""

    def __init__(
        self,
        message: str,
        location: str | None = None,
        notes: Sequence[Diagnostic] = (),
        severity: Severity = "warning",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.diagnostic = Diagnostic(severity, message, location, tuple(notes))

    def __str__(self) -> str:
        return str(self.diagnostic)


class MissingExtra(ShardError):
    """An optional package is not installed; the message names the extra that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: run `pip install 'shard-dialect[{extra}]'`")


def quoted(text: str) -> str:
    r"""The string literal of `text`, as MLIR prints it.

    >>> print(quoted('a"\n\\é'))
    "a\22\0A\\\C3\A9"
    """
    data = text.encode(errors="surrogateescape")
    return '"' + "".join(map(_escaped, data)) + '"'


def _escaped(byte: int) -> str:
    if byte == ord("\\"):
        return "\\\\"
    return chr(byte) if 32 <= byte < 127 and byte != ord('"') else f"\\{byte:02X}"


def as_symbol(name: str) -> str:
    """A symbol as MLIR spells it.

    >>> print(as_symbol("main"), as_symbol("a b"))
    @main @"a b"
    """
    return f"@{name if _BARE.fullmatch(name) else quoted(name)}"


_BARE = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)


def choose_function(name: str | None, public: Sequence[str], known: Sequence[str]) -> str:
    """The function meant: `name`, else `main`, else the only public one of those that are known.

    Raises `ShardError` where there is none.
    """
    if name is not None:
        if name not in known:
            names = ", ".join(map(as_symbol, known)) or "none"
            nearest = did_you_mean(name, known)
            raise ShardError(
                f"there is no function {as_symbol(name)} to run; there are {names}{nearest}"
            )
        return name
    if "main" in public:
        return "main"
    if not known:
        raise ShardError("the module has no function to run")
    if len(public) != 1:
        names = ", ".join(map(as_symbol, public)) or "none"
        raise ShardError(
            f"which function to run is not clear: name one @main, or with --entry; of {names}"
        )
    return public[0]
