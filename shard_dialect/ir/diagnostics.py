"""Locations and diagnostics: from MLIR's to ours, `file:line:col: error: message`."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeVar

from shard_dialect.errors import (
    Diagnostic,
    Severity,
    ShardError,
    ShardWarning,
    brief,
    raised_in,
)
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.reading.string_literals import quoted


def warn(message: str, location: ir.Location, *notes: Diagnostic) -> None:
    """Warn the user, through Python's `warnings`; `opt` and `run` print it on stderr."""
    give(Diagnostic("warning", message, location_text(location), notes))


def remark(message: str, location: ir.Location, *notes: Diagnostic) -> None:
    """As `warn`, with severity `remark`."""
    give(Diagnostic("remark", message, location_text(location), notes))


def give(diagnostic: Diagnostic) -> None:
    """Pass a diagnostic to Python's `warnings`, and, whatever these filter, to `listening`."""
    diagnostic = replace(diagnostic, notes=_with_notes(diagnostic.message, diagnostic.notes))
    heard = _heard.get()
    if heard is not None:
        heard.append(diagnostic)
    if _is_silent.get():
        return
    warning = ShardWarning(
        diagnostic.message, diagnostic.location, diagnostic.notes, diagnostic.severity
    )
    warnings.warn(warning, stacklevel=3)


T = TypeVar("T")
_notes: ContextVar[Callable[[str], Sequence[Diagnostic]]] = ContextVar(
    "_notes", default=lambda message: ()
)


@contextmanager
def noting(notes_on: Callable[[str], Sequence[Diagnostic]]) -> Iterator[None]:
    """Add the notes on its message to each error and warning of the `with` block."""
    with holding(_notes, notes_on):
        try:
            yield
        except ShardError as error:
            error.notes = _with_notes(error.message, error.notes)
            raise


def _with_notes(message: str, notes: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return (*notes, *(each for each in _notes.get()(message) if each not in notes))


_heard: ContextVar[list[Diagnostic] | None] = ContextVar("_heard", default=None)


@contextmanager
def listening() -> Iterator[list[Diagnostic]]:
    """Collect the warnings and remarks that are given in the `with` block, whatever is filtered.

    They go to Python's `warnings` as well, and to a `listening` around this one.
    """
    heard: list[Diagnostic] = []
    outer = _heard.get()
    try:
        with holding(_heard, heard):
            yield heard
    finally:
        if outer is not None:
            outer += heard


_is_silent: ContextVar[bool] = ContextVar("_is_silent", default=False)


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Let a variable have this value in the `with` block, in this thread only."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def silent() -> AbstractContextManager[None]:
    """Give no warnings in the `with` block, of this thread only.

    Python's filters are those of the process: two threads that set them and put them back leave
    those of one in place.
    """
    return holding(_is_silent, True)


_shown: ContextVar[Callable[[str], str]] = ContextVar("_shown", default=lambda text: text)


def showing_locations(show: Callable[[str], str]) -> AbstractContextManager[None]:
    """Map every `file:line:col` by `show`, for text that differs from what the user wrote."""
    return holding(_shown, show)


def later_in(module: ir.Module) -> Callable[[], AbstractContextManager[None]]:
    """What to enter for a user's code that runs later: it may make types, and speak of places."""
    show = _shown.get()

    @contextmanager
    def enter() -> Iterator[None]:
        with module.context, ir.Location.unknown(), showing_locations(show):
            yield

    return enter


def location_text(location: ir.Location) -> str | None:
    """`file:line:col` of a location, as `place_in` finds it, in the text that the user wrote."""
    place = place_in(location)
    return None if place is None else _shown.get()(place)


def place_in(location: ir.Location) -> str | None:
    """`file:line:col` of a location, or of the first location inside it that has one.

    Of calls it is that of the innermost one that has one and is not in torch's own files.
    """
    with location.context:  # a backend's class is called in none
        location = ir.Location.from_attr(location.attr)  # of its own class, which diagnostics lack
    if isinstance(location, ir.FileLineColLoc):
        name = _name_of_cell(location.filename) or location.filename
        return f"{name}:{location.start_line}:{location.start_col}"
    if isinstance(location, ir.NameLoc):
        return place_in(location.child_loc)
    if isinstance(location, ir.CallSiteLoc):
        text = place_in(location.callee)
        # What nn.Linear does tells nobody which layer it is; JAX's own functions have no places.
        says_nothing = text is None or _OF_TORCH.search(text)
        return (place_in(location.caller) or text) if says_nothing else text
    if isinstance(location, ir.FusedLoc):
        return next((text for inner in location.locations if (text := place_in(inner))), None)
    return None


_OF_TORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]")


def _name_of_cell(file: str) -> str | None:
    """`In[3]` for the file that IPython makes up for a cell of a notebook."""
    shell_of = getattr(sys.modules.get("IPython"), "get_ipython", None)
    compiler = getattr(shell_of() if shell_of else None, "compile", None)
    named = getattr(compiler, "format_code_name", lambda _: None)(file)
    return str(named[1]) if named else None


def name_in(location: ir.Location) -> str | None:
    """The innermost name in a location, which frameworks give to parameters; `None` without one."""
    with location.context:
        location = ir.Location.from_attr(location.attr)  # of its own class
    if isinstance(location, ir.NameLoc):
        return name_in(location.child_loc) or location.name_str
    if isinstance(location, ir.CallSiteLoc):
        return name_in(location.callee)
    if isinstance(location, ir.FusedLoc):
        return next((name for inner in location.locations if (name := name_in(inner))), None)
    return None


def names_in(location: ir.Location) -> Iterator[str]:
    """The names in a location, the outermost first: of calls, those of the caller."""
    with location.context:
        location = ir.Location.from_attr(location.attr)  # of its own class
    if isinstance(location, ir.NameLoc):
        yield location.name_str
        yield from names_in(location.child_loc)
    elif isinstance(location, ir.CallSiteLoc):
        yield from names_in(location.caller)
        yield from names_in(location.callee)
    elif isinstance(location, ir.FusedLoc):
        for each in location.locations:
            yield from names_in(each)


def with_file_names(text: str) -> str:
    """Printed IR with the user's locations in place of MLIR's, which call the file `-`."""

    def restored(match: re.Match[str]) -> str:
        file, line, column = _shown.get()(f"-:{match[1]}").rsplit(":", 2)
        return f"{quoted(file)}:{line}:{column}"

    return re.sub(r'(?<=[(\[ ])"-":(\d+:\d+)', restored, text)


def error_at(location: ir.Location, message: str, *notes: Diagnostic) -> ShardError:
    """A located error, with notes."""
    return ShardError(message, location_text(location), notes)


def note_at(location: ir.Location, message: str) -> Diagnostic:
    """A located note."""
    return Diagnostic("note", message, location_text(location))


class located:  # noqa: N801  # a context manager, for one op after the other: a generator is slower
    """Give errors without a location, raised in the `with` block, the place of `op`."""

    __slots__ = ("_op",)

    def __init__(self, op: ir.Operation) -> None:
        self._op = op

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ShardError):
            raise error.at(_place_of(self._op)) from None


def _place_of(op: ir.Operation | None) -> str | None:
    """The place of an op, or of the nearest one around it that has one: JAX's may have none."""
    while op is not None:
        text = location_text(op.location)
        if text is not None:
            return text
        op = op.parent
    return None


@contextmanager
def readable_strings(op: ir.Operation) -> Iterator[None]:
    """Raise a located `ShardError` if a string of `op` is not UTF-8, as the bindings require."""
    try:
        yield
    except RuntimeError as error:
        raise not_utf8(error, location_text(op.location), f"'{op.name}' op ") from None


def not_utf8(error: RuntimeError, location: str | None, what: str = "") -> ShardError:
    """Our error for the bindings' error about a string; raises any other error again."""
    if "nanobind" not in str(error):
        raise error
    return ShardError(f"{what}holds a string that is not UTF-8", location)


def from_mlir(error: ir.MLIRError) -> ShardError:
    """The `ShardError` with the diagnostics of MLIR's exception."""
    diagnostics = [_diagnostic(each) for each in getattr(error, "error_diagnostics", ())]
    return _as_error(diagnostics) if diagnostics else ShardError(str(error).strip())


def from_mlir_in(what: str, error: ir.MLIRError, location: str | None) -> ShardError:
    """The `ShardError` for MLIR's exception in a user's function, which `what` names.

    It is at the op that MLIR speaks about, else at `location`; so are errors in a text that the
    function parsed, whose lines are not those of the user's file.
    """
    notes = raised_in(error)
    if "Unable to parse" in str(error):
        return ShardError(f"{what} raised {brief(error)}", location, notes)
    found = from_mlir(error)
    place, notes = found.location or location, (*found.notes, *notes)
    return ShardError(f"{what}: {found.message}", place, notes, found.further)


@contextmanager
def reporting(context: ir.Context) -> Iterator[None]:
    """Pass MLIR's warnings and remarks to Python's `warnings`, where ours go.

    MLIR's exceptions carry errors. Errors replace exceptions that do not carry them. Errors without
    an exception are raised at the end.
    """
    errors: list[Diagnostic] = []
    raised: list[BaseException] = []  # an exception cannot pass through MLIR

    def handle(mlir_diagnostic: ir.Diagnostic) -> bool:
        try:
            read = _diagnostic(mlir_diagnostic)
            if read.severity == "error":
                errors.append(read)
            else:
                give(read)
        except BaseException as error:
            raised.append(error)
        return True

    handler = context.attach_diagnostic_handler(handle)
    try:
        yield
    except RuntimeError:
        if errors:
            raise _as_error(errors) from None
        raise
    finally:
        handler.detach()
    if raised:
        raise raised[0]
    if errors:
        raise _as_error(errors)


def _as_error(diagnostics: list[Diagnostic]) -> ShardError:
    first, *further = diagnostics
    return ShardError(first.message, first.location, first.notes, further)


def _diagnostic(mlir_diagnostic: ir.Diagnostic | ir.DiagnosticInfo) -> Diagnostic:
    notes = tuple(_diagnostic(each) for each in mlir_diagnostic.notes)
    return Diagnostic(
        _severity(mlir_diagnostic),
        _in_our_words(mlir_diagnostic.message),
        location_text(mlir_diagnostic.location),
        notes,
    )


NOT_REGISTERED = (
    "is of a dialect that is not registered: register it by sd.register_dialect in a plugin, which "
    "--load-plugin names, or have shard-opt read it as it is, by --allow-unregistered-dialect"
)
_UNREGISTERED = re.compile(
    r"operation being parsed with an unregistered dialect\. If this is intended, .* tool used"
)


_ADDED = {
    "custom op 'shard.sharding' expected integer value": (
        "its axes are numbers, also where the grid names them"
    ),
    "grid axis duplicated": "name each axis once, in the list of one dimension",
}
"""What upstream's messages leave out."""


def _in_our_words(message: str) -> str:
    if message in _ADDED:
        return f"{message}: {_ADDED[message]}"
    return _UNREGISTERED.sub(f"operation {NOT_REGISTERED}", message)


def _severity(mlir_diagnostic: ir.Diagnostic | ir.DiagnosticInfo) -> Severity:
    names: dict[object, Severity] = {
        ir.DiagnosticSeverity.ERROR: "error",
        ir.DiagnosticSeverity.WARNING: "warning",
        ir.DiagnosticSeverity.REMARK: "remark",
        ir.DiagnosticSeverity.NOTE: "note",
    }
    return names[mlir_diagnostic.severity]
